"""A training in a run folder: the folder is locked, a supervisor runs the training, and the final state is written."""

from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from gmi_drl.errors import GmiError, InUseError, MachineError
from gmi_drl.launch.job import TrainingJob
from gmi_drl.launch.nodes.supervisor_starters import SupervisorStarter
from gmi_drl.launch.open_layout import hold_devices
from gmi_drl.launch.processes.gmi_restarts import Restarts
from gmi_drl.launch.signals import Stage, stop_on_signals
from gmi_drl.launch.supervisor import Outcome, Supervisor
from gmi_drl.run.file_presence import Presence
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row


def train(
    job: TrainingJob,
    *,
    resume: Path | None = None,
    apply_mig: bool = False,
    supervisors: SupervisorStarter | None = None,
    restarts: int = 0,
    on_start: Callable[[], None] = lambda: None,
    on_row: Callable[[Row], None] = lambda row: None,
    on_restart: Callable[[str], None] = lambda text: None,
    on_warning: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Train in the job's run folder, which gets the job's layout and configuration.

    With restarts a training continues after the death of a GMI or a node. The environments of a lost node are divided
    among the GMIs of the others, as evenly as they go, and begin anew where they have moved. A GMI that died alone is
    started where it was, and all environments continue from the checkpoint. A GMI that the others can do without for
    a while (`Template.restartable`) is restarted alone, and nothing is lost. After a signal, or when the time limit is
    over, nothing is restarted: the run ends at its last checkpoint.

    Args:
        job: What is trained, and in which folder: one that `RunFolder.create` has made, or that of the run to resume.
        resume: The checkpoint to go on from; None for a new run.
        apply_mig: Make the MIG instances that the layout wants, and restore afterwards what was there.
        supervisors: Starts the supervisors of the layout's nodes; None for a layout of this machine.
        restarts: How many times a GMI or a node may die at most. The time limit is that of all starts together.
        on_start: Called whenever the devices are cut and the GMIs have been started.
        on_row: Called with every row of the metrics.
        on_restart: Called at each restart, and at a death after which there is none, with a line that says what died.
        on_warning: Called when one of the configuration's writers is dropped, or a node falls silent.

    Raises:
        LayoutMismatchError: if the devices or the folder are not there, or in use (InUseError). The folder stays as it
            was; a new one is removed.
        MachineError: if the devices cannot be cut, the folder is removed, moved or replaced meanwhile, or the disk is
            full.
        GmiDiedError: if a GMI dies, and there is no restart left, no checkpoint yet, or no node left.
        GmiError: if a GMI fails; the message names it. The run folder keeps the last checkpoint.
        EndedAtOnce: at a signal before the devices are held, and at a second one before the end is known.
    """
    folder = job.folder
    if resume is not None:
        folder.require_task(job.task)
    # Signals are handled until the state is written: a second one must not discard a result.
    with (
        folder.lock(),
        folder.kept_if_begun(),
        closing(Presence(folder.path)) as presence,
        stop_on_signals(Stage.STARTING) as request,
    ):
        _check_newest(folder, resume)
        left = Restarts(restarts, on_restart, lambda: request.signal is None)
        hold = partial(
            hold_devices, purpose=str(folder.path), supervisors=supervisors, apply_mig=apply_mig, tell=on_warning
        )
        supervisor = Supervisor(job, presence, request, left, hold, on_start, on_row, on_warning)
        try:
            outcome = supervisor.run(resume)
            presence.require()
            folder.write_state(outcome.state)
        except OSError as error:
            _write_state(supervisor, "failed", str(error))
            raise MachineError(f"{folder.path}: {error.strerror or error}") from error
        except BaseException as error:
            is_ours = isinstance(error, GmiError)
            _write_state(supervisor, "failed" if is_ours else "stopped", str(error) or type(error).__name__)
            raise
    return outcome


def _check_newest(folder: RunFolder, resume: Path | None) -> None:
    """Refuse a checkpoint that is not the newest: another process may have saved more before the folder was locked."""
    saved = folder.resumable()
    if resume != (saved[-1] if saved else None):
        raise InUseError(f"{folder.path} has got other checkpoints meanwhile: run the command again")


def _write_state(supervisor: Supervisor, state: str, message: str) -> None:
    """Write why the run ended, if it has begun and its folder is still there. Errors of the disk are ignored."""
    folder, presence = supervisor.folder, supervisor.presence
    with suppress(OSError):
        if supervisor.has_begun and presence.is_there() and folder.layout_file.exists():  # before that it is no run
            folder.write_state(state, message)
