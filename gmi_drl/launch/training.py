"""A training on this host: start the GMIs, keep the metrics, stop in order."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import Signals

from gmi_drl.config import RunConfig
from gmi_drl.errors import GmiError, LayoutMismatchError, MachineError, UsageError
from gmi_drl.gmi import Claim
from gmi_drl.gmi.utilisation import Sampler, Usage, watched_gpus
from gmi_drl.launch.describe import task_spec
from gmi_drl.launch.events import Heard
from gmi_drl.launch.ground import Laying
from gmi_drl.launch.held import held
from gmi_drl.launch.learnable import require_learnable
from gmi_drl.launch.nodes.starters import AgentStarter
from gmi_drl.launch.opened import opened
from gmi_drl.launch.rows import RowMerger
from gmi_drl.launch.signals import StopRequest, stop_on_signals
from gmi_drl.launch.succession import Restarts, Succession
from gmi_drl.layout import Layout
from gmi_drl.learners import LEARNERS
from gmi_drl.roles.words import Report, Stop
from gmi_drl.run.checkpoint import drop_drafts, list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row, drop_rows_after
from gmi_drl.run.presence import Presence
from gmi_drl.run.writers import Writers
from gmi_drl.task_names import find_task
from gmi_drl.task_settings import check_settings
from gmi_drl.templates import template_for, template_of

PATIENCE_S = 10.0  # GMIs that miss a peer name it, so they are given the time to say so first


@dataclass(frozen=True)
class Outcome:
    """How a training ended: `done` or `stopped`, after which iteration, by which signal, and where it can go on."""

    state: str
    iteration: int
    signal: Signals | None
    checkpoint: Path | None


def train(
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    *,
    resume: Path | None = None,
    apply_mig: bool = False,
    agents: AgentStarter | None = None,
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
        restarts: How often an agent may be started again alone that has died, where that is possible; None: never.
        on_start: Called when the devices are cut and the GMIs have been started.
        on_row: Called with every row of the metrics.
        on_warning: Called when one of the configuration's writers is dropped, or a node falls silent.

    Raises:
        UsageError: if the layout or the configuration cannot be trained.
        LayoutMismatchError: if the devices or the folder are not there or in use. The folder stays as it was; a
            new one is removed.
        MachineError: when the devices cannot be cut, the folder is removed, moved or replaced meanwhile, or the disk
            takes no more.
        GmiError: when a GMI fails; its message names it. The run folder keeps the last checkpoint.
    """
    check_trainable(layout, config)
    with folder.lock(), folder.kept_if_begun(), Presence(folder.path) as home:
        _check_newest(folder, resume)
        # Signals until the state is written: a second one must not undo a result.
        with (
            held(layout, str(folder.path), agents, apply_mig=apply_mig, tell=on_warning) as claim,
            stop_on_signals() as request,
        ):
            try:
                outcome = _train(
                    claim, layout, config, folder, home, resume, restarts, on_start, on_row, on_warning, request
                )
                home.require()
                folder.write_state(outcome.state)
            except OSError as error:
                _tell_state(folder, home, "failed", str(error))
                raise MachineError(f"{folder.path}: {error.strerror or error}") from error
            except BaseException as error:
                is_ours = isinstance(error, GmiError)
                _tell_state(folder, home, "failed" if is_ours else "stopped", str(error) or type(error).__name__)
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


def _tell_state(folder: RunFolder, home: Presence, state: str, message: str) -> None:
    """Keep the reason if folder and disk still take it: what failed first is what counts."""
    with suppress(OSError):
        if home.is_there() and folder.layout_file.exists():  # before that it is no run
            folder.write_state(state, message)


def _train(
    claim: Claim | Laying,
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    home: Presence,
    resume: Path | None,
    restarts: Restarts | None,
    on_start: Callable[[], None],
    on_row: Callable[[Row], None],
    on_warning: Callable[[str], None],
    request: StopRequest,
) -> Outcome:
    assert layout.task is not None
    spec = task_spec(layout.task)
    drop_drafts(folder.checkpoints)
    template = template_of(layout)
    roles = template.roles(layout, LEARNERS.find(config.learner.kind))
    params = {"resume": str(resume.relative_to(folder.path)) if resume else None}
    slot_bytes = config.learner.bucket_bytes(spec)
    leaders, is_asked = template.leaders(layout), False
    succeeded = template.succeeded(layout) if isinstance(claim, Claim) else frozenset[int]()
    succession = Succession(succeeded, restarts) if restarts and restarts.left and succeeded else None
    with ExitStack() as life:
        writers = life.enter_context(Writers(folder, config.writers, on_warning))  # end after the processes
        processes = life.enter_context(
            opened(claim, layout, config, folder, roles, params, slot_bytes=slot_bytes, succession=succession)
        )
        on_start()
        sampler = life.enter_context(Sampler(watched_gpus(layout, processes.instances.environment)))
        reporters = template.reporters(layout)
        merger = RowMerger(len(reporters), config.learner.steps_of(layout), partial(_usage, sampler))
        folder.write_state("running")
        drop_rows_after(folder.metrics_file, int(resume.name) if resume else 0)
        writers.start()
        rows = life.enter_context(Presence(folder.metrics_file))
        life.callback(request.settle)  # how it ended stands, whoever is impatient while the processes end
        for event in processes.events(silence_s=config.hang_s * layout.patience + PATIENCE_S):
            home.check()
            rows.check()
            if request.signal is not None and not is_asked:
                for leader in leaders:
                    processes.say(leader, Stop())
                is_asked = True
                if restarts is not None:
                    restarts.left = 0  # who wants an end gets one
            if isinstance(event, Heard) and isinstance(event.word, Report):
                for merged in merger.add(event.gmi_id, event.word.row):
                    writers.write(merged)
                    on_row(merged)
    result = processes.results[leaders[0]]
    saved = list_checkpoints(folder.checkpoints)
    state = "stopped" if request.signal is not None and result["stopped"] else "done"
    return Outcome(state, result["iteration"], request.signal, saved[-1] if saved else None)


def _usage(sampler: Sampler, since_s: float, until_s: float) -> Usage:
    """Means of a time; what was before it nobody asks for any more."""
    sampler.forget(since_s)
    return sampler.mean(since_s, until_s)
