"""A training: what it can run on is checked, then its supervisor sees it through."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_names import find_task
from gmi_drl.config.task_settings import check_settings
from gmi_drl.errors import GmiError, LayoutMismatchError, MachineError, UsageError
from gmi_drl.launch.nodes.starters import SupervisorStarter
from gmi_drl.launch.open_layout import hold_devices
from gmi_drl.launch.processes.gmi_restarts import Restarts
from gmi_drl.launch.signals import Stage, stop_on_signals
from gmi_drl.launch.supervisor import Outcome, Supervisor
from gmi_drl.launch.task_info import require_learnable, task_spec
from gmi_drl.layout.layout import Layout
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.presence import Presence
from gmi_drl.templates import template_for


def train(
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    *,
    resume: Path | None = None,
    apply_mig: bool = False,
    agents: SupervisorStarter | None = None,
    restarts: Restarts | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_row: Callable[[Row], None] = lambda row: None,
    on_warning: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Train in a run folder, whose layout and configuration become these.

    Args:
        layout: Where.
        config: How.
        folder: Made by `RunFolder.create`, or that of the run to go on with.
        resume: The checkpoint to go on from.
        apply_mig: Make the MIG instances that the layout wants, and restore afterwards what was there.
        agents: Starts the agents of the layout's nodes; None for a layout of this machine.
        restarts: How often what has died may be started again (`train_on`); None: never.
        on_start: Called whenever the devices are cut and the GMIs have been started.
        on_row: Called with every row of the metrics.
        on_warning: Called when one of the configuration's writers is dropped, or a node falls silent.

    Raises:
        UsageError: if the layout or the configuration cannot be trained.
        LayoutMismatchError: if the devices or the folder are not there or in use. The folder stays as it was; a
            new one is removed.
        MachineError: when the devices cannot be cut, the folder is removed, moved or replaced meanwhile, or the disk
            takes no more.
        GmiError: when a GMI fails; its message names it. The run folder keeps the last checkpoint.
        EndedAtOnce: at a signal before the devices are held, and at a second one before the end is known.
    """
    check_trainable(layout, config)
    if resume is not None:
        folder.require_task(task_spec(layout.task or ""))
    # Signals until the state is written: a second one must not undo a result.
    with (
        folder.lock(),
        folder.kept_if_begun(),
        Presence(folder.path) as home,
        stop_on_signals(Stage.STARTING) as request,
    ):
        _check_newest(folder, resume)
        restarts = restarts or Restarts(0, on_warning)
        restarts.are_wanted = lambda: request.signal is None
        hold = partial(hold_devices, purpose=str(folder.path), agents=agents, apply_mig=apply_mig, tell=on_warning)
        supervisor = Supervisor(config, folder, home, request, restarts, hold, on_start, on_row, on_warning)
        try:
            outcome = supervisor.run(layout, resume)
            home.require()
            folder.write_state(outcome.state)
        except OSError as error:
            _tell_state(supervisor, "failed", str(error))
            raise MachineError(f"{folder.path}: {error.strerror or error}") from error
        except BaseException as error:
            is_ours = isinstance(error, GmiError)
            _tell_state(supervisor, "failed" if is_ours else "stopped", str(error) or type(error).__name__)
            raise
    return outcome


def _check_newest(folder: RunFolder, resume: Path | None) -> None:
    """Between the choice of a checkpoint and the lock of the folder another process may have saved more."""
    saved = list_checkpoints(folder.checkpoints)
    if resume != (saved[-1] if saved else None):
        raise LayoutMismatchError(f"{folder.path} has got other checkpoints meanwhile: give the command once more")


def check_trainable(layout: Layout, config: RunConfig) -> None:
    """Refuse what no training can run on.

    Raises:
        UsageError: if there is no such task, its simulator cannot do what is set, the learner cannot learn it, or the
            numbers do not fit.
        MachineError: the task's simulator, or what the learner needs, is not installed.
    """
    learner = LEARNERS.find(config.learner.kind)
    learner.require()
    if learner.on_one_host and len(layout.nodes) > 1:
        nodes = ", ".join(str(node) for node in layout.nodes)
        raise UsageError(f"{learner.name} trains on one host, the layout is over {nodes}: take one node, or --algo ppo")
    template_for(layout, "training").roles(layout, learner)  # refuses learners that it is not for
    assert layout.task is not None
    check_settings(
        find_task(layout.task),
        on_gpu=any(device.kind == "gpu" for device in layout.devices),
        physics=config.physics,
        room=config.warp,
        tells_terms=config.reward_terms,
    )
    require_learnable(config.learner, layout.task)
    fewest = config.learner.worlds_of(layout) * config.learner.horizon
    if fewest < config.learner.minibatches:
        wanted = config.learner.minibatches
        raise UsageError(f"a GMI learns from {fewest} transitions (environments x horizon) in {wanted} mini-batches")


def _tell_state(supervisor: Supervisor, state: str, message: str) -> None:
    """Keep the reason if the run has begun, and folder and disk still take it: what failed first is what counts."""
    folder, home = supervisor.folder, supervisor.home
    with suppress(OSError):
        if supervisor.has_begun and home.is_there() and folder.layout_file.exists():  # before that it is no run
            folder.write_state(state, message)
