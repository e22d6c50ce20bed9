"""A training on this host: start the GMIs, keep the metrics, stop in order."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from gmi_drl.config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.gmi import ProcessBackend
from gmi_drl.launch.processes import GMIProcesses
from gmi_drl.launch.rows import RowMerger
from gmi_drl.launch.signals import SecondSignal, stop_on_signals
from gmi_drl.layout import Layout
from gmi_drl.run.checkpoint import drop_drafts, list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import MetricsFile, Row, drop_rows_after
from gmi_drl.scheduler.plan import TRAINERS
from gmi_drl.workload import TASK_SPECS

PATIENCE_S = 10.0  # GMIs that miss a peer name it, so they are given the time to say so first
ROLE = "gmi_drl.roles.holistic:Holistic"


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
    on_row: Callable[[Row], None] = lambda row: None,
) -> Outcome:
    """Train in a run folder; its layout and configuration become these.

    Args:
        layout: Where.
        config: How.
        folder: Made by `RunFolder.create`, or that of the run to go on with.
        resume: The checkpoint to go on from.
        on_row: Called with every row of the metrics.

    Raises:
        GmiError: when a GMI fails; its message names it. The run folder keeps the last checkpoint.
    """
    with folder.lock():
        folder.write_setup(layout, config)
        folder.write_state("running")
        try:
            outcome = _train(layout, config, folder, resume, on_row)
        except GmiError as error:
            folder.write_state("failed", str(error))
            raise
        except SecondSignal:
            folder.write_state("stopped", "ended at once by a second signal")
            raise
        folder.write_state(outcome.state)
        return outcome


def _train(
    layout: Layout, config: RunConfig, folder: RunFolder, resume: Path | None, on_row: Callable[[Row], None]
) -> Outcome:
    assert layout.task is not None
    spec = TASK_SPECS[layout.task]
    drop_drafts(folder.checkpoints)
    drop_rows_after(folder.metrics_file, int(resume.name) if resume else 0)
    merger = RowMerger(len(layout.gmis), config.ppo.horizon * layout.num_env)
    backend = ProcessBackend(purpose=str(folder.path))
    processes = GMIProcesses(
        layout,
        ROLE,
        {"resume": str(resume) if resume else None},
        folder,
        backend,
        hang_s=config.hang_s,
        slot_bytes=4 * (spec.num_weights + spec.num_actions + 64),
    )
    leader, is_asked = layout.groups[TRAINERS][0], False
    with stop_on_signals() as request, closing(backend), MetricsFile(folder.metrics_file) as metrics:
        backend.open(layout)
        with processes:
            for gmi_id, row in processes.messages(silence_s=config.hang_s + PATIENCE_S):
                if request.signal is not None and not is_asked:
                    processes.say(leader, "stop")
                    is_asked = True
                for merged in merger.add(gmi_id, row):
                    metrics.append(merged)
                    on_row(merged)
    result = processes.results[leader]
    saved = list_checkpoints(folder.checkpoints)
    state = "stopped" if request.signal is not None and result["stopped"] else "done"
    return Outcome(state, result["iteration"], request.signal, saved[-1] if saved else None)
