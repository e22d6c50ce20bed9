"""Runs a training from its first start to its end, over all restarts, and handles its signals and its time limit."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from signal import Signals

from gmi_drl.errors import GmiDiedError, MissingNodeError
from gmi_drl.gmi import Claim
from gmi_drl.gmi.utilisation import Sampler, Usage, watched_gpus
from gmi_drl.launch.drop_lost_nodes import what_is_left
from gmi_drl.launch.hosts import DeviceOpener
from gmi_drl.launch.job import TrainingJob
from gmi_drl.launch.leaders import Leaders
from gmi_drl.launch.open_layout import opened
from gmi_drl.launch.policy_rows import PolicyRows
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, Losses, Restarts
from gmi_drl.launch.row_merger import RowMerger
from gmi_drl.launch.signals import Stage, StopRequest
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.waits import waits_of
from gmi_drl.roles.launcher.protocol import Holds, Report
from gmi_drl.run.checkpoint import drop_drafts, drop_later, list_checkpoints
from gmi_drl.run.file_presence import Presence
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row, drop_rows_after, read_metrics
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.run.writers import Writers


@dataclass(frozen=True)
class Outcome:
    """How a training ended: `done` or `stopped`, its last iteration, the signal that came, and its last checkpoint."""

    state: str
    iteration: int
    signal: Signals | None
    checkpoint: Path | None


@dataclass
class Supervisor:
    """Supervises a training over all its starts.

    Args:
        job: What is trained, without lost nodes. Its folder is locked.
        presence: Checks that the run folder is not moved or replaced.
        request: The signal that has come, if any.
        restarts: Counts the restarts.
        hold: Holds the devices of a layout.
        on_start: Called whenever the GMIs have been started.
        on_row: Called with every row of the metrics.
        on_warning: Called when one of the writers is dropped, or rows are.

    Attributes:
        has_begun: Whether devices were held once. Only then the run's state is written.
    """

    job: TrainingJob
    presence: Presence
    request: StopRequest
    restarts: Restarts
    hold: Callable[[Layout], AbstractContextManager[Claim | DeviceOpener]]
    on_start: Callable[[], None]
    on_row: Callable[[Row], None]
    on_warning: Callable[[str], None]
    has_begun: bool = False
    _ends_s: float | None = field(default=None, init=False)  # by time.monotonic(); set after the first iteration

    @property
    def folder(self) -> RunFolder:
        """The run folder."""
        return self.job.folder

    def run(self, resume: Path | None) -> Outcome:
        """Train, and restart from the newest checkpoint after deaths, as long as restarts are left.

        Args:
            resume: The checkpoint to go on from; None for a new run.

        Raises:
            GmiDiedError: if a GMI dies, and there is no restart left, no checkpoint yet, or no node left.
            GmiError: as for `train`.
        """
        while True:
            try:
                return self._start(resume)
            except (GmiDiedError, MissingNodeError) as error:
                saved = self.folder.resumable()
                if not self.has_begun or not self.restarts.left or not saved:
                    raise
                if why := self._reason_not_to_restart(int(saved[-1].name)):
                    self.restarts.tell(f"{_first_line(error)}: not started again, {why}")
                    return self._outcome(int(saved[-1].name), is_stopped=self.request.signal is not None)
                if (rest := what_is_left(self.job.layout, error, self.job.task.agents)) is None:
                    raise
                lost = isinstance(error, MissingNodeError) or error.exit_code_of_gmi == LOST
                where = f" on {', '.join(str(node) for node in rest.nodes)}" if lost else ""
                self.restarts.take(error, f"going on from iteration {int(saved[-1].name)}{where}")
                self.request.stage = Stage.RUNNING
                self.job, resume = self.job.on(rest), saved[-1]

    def _reason_not_to_restart(self, iteration: int) -> str:
        """Why a run whose last checkpoint has this iteration needs no restart; empty if it needs one."""
        if iteration >= self.job.config.iterations:
            return "since all iterations are done"
        if self.request.signal is not None:
            return f"since {self.request.signal.name} asks for the end: it stands at iteration {iteration}"
        return f"since its time is over: it stands at iteration {iteration}" if self._is_late() else ""

    def _outcome(self, iteration: int, *, is_stopped: bool) -> Outcome:
        """The outcome for the user: a run is done if all of its iterations are, even after a signal."""
        state = "stopped" if is_stopped and iteration < self.job.config.iterations else "done"
        saved = list_checkpoints(self.folder.learning[0].checkpoints)
        return Outcome(state, iteration, self.request.signal, saved[-1] if saved else None)

    def _start(self, resume: Path | None) -> Outcome:
        """Hold the devices and train until the end, or until a GMI dies."""
        with self.hold(self.job.layout) as claim:
            self.has_begun = True
            if self.request.signal is not None:  # during a restart
                assert resume is not None
                return self._outcome(int(resume.name), is_stopped=True)
            self.request.stage = Stage.RUNNING
            return self._train(claim, resume)

    def _train(self, claim: Claim | DeviceOpener, resume: Path | None) -> Outcome:
        job, layout, template = self.job, self.job.layout, self.job.template
        for folder in self.folder.learning:
            drop_drafts(folder.checkpoints)
            drop_later(folder.checkpoints, int(resume.name) if resume else 0)  # of policies that were ahead of others
        params = {"resume": str(Path(*resume.parts[-2:])) if resume else None}  # from the folder that each GMI has
        restartable = template.restartable(layout)
        restarts = GMIRestarts(restartable, self.restarts) if self.restarts.left and restartable else None
        losses = Losses(layout, self.restarts.tell)
        with ExitStack() as life:
            writers = life.enter_context(Writers(self.folder, job.config.used_writers, self.on_warning))  # closed last
            processes = life.enter_context(opened(claim, job, params, restarts=restarts, losses=losses))
            self.on_start()
            sampler = life.enter_context(Sampler(watched_gpus(layout, processes.instances.environment)))
            steps = job.config.learner.steps_of(layout)
            usage = partial(_usage, sampler)
            merger = (
                PolicyRows(job.policies, usage)
                if job.policies
                else RowMerger(len(template.reporters(layout)), steps, usage)
            )
            self.folder.write_task(job.task)
            self.folder.write_state("running")
            self._go_back_to(int(resume.name) if resume else 0)
            merger.recall(read_metrics(self.folder.metrics_file))
            writers.start()
            rows = life.enter_context(closing(Presence(self.folder.metrics_file)))
            life.callback(self.request.only_store)  # signals must not interrupt the end of the processes
            ids, lag = template.leaders(layout), layout.channels.max_lag if layout.channels else 0
            every_s = job.config.checkpoint_every_s
            leaders = Leaders(ids, processes.send, lambda gmi: gmi in processes.results, lag, every_s)
            by_signal = self._supervise(processes, leaders, merger, writers, rows, losses)
            result = processes.results[ids[0]]
            outcome = self._outcome(result["iteration"], is_stopped=result["stopped"] and by_signal)
            self.request.settle()
        return outcome

    def _go_back_to(self, iteration: int) -> None:
        """Move the rows of iterations that are repeated to a file beside, and warn."""
        folder = self.folder
        if dropped := drop_rows_after(folder.metrics_file, iteration, folder.dropped_file):
            first, last = dropped[0]["iteration"], dropped[-1]["iteration"]
            which = f"iteration {first} is" if first == last else f"iterations {first} to {last} are"
            rows = f"the rows in {folder.metrics_file.name} of before are now in {folder.dropped_file.name}"
            self.on_warning(f"the last checkpoint is of iteration {iteration}: {which} repeated; {rows}")

    def _supervise(
        self,
        processes: GMIProcesses,
        leaders: Leaders,
        merger: RowMerger | PolicyRows,
        writers: Writers,
        rows: Presence,
        losses: Losses,
    ) -> bool:
        """Pass rows on until all GMIs are done. Stops the GMIs at a signal or at the time limit.

        Returns:
            Whether a signal stopped them.
        """
        is_stopping, by_signal = False, False
        for event in processes.events(silence_s=waits_of(processes.layout).launcher_s(self.job.config.hang_s)):
            self.presence.check()
            rows.check()
            if not is_stopping and (self.request.signal is not None or self._is_late()):
                is_stopping, by_signal = True, not self._is_late()
                leaders.stop()
            leaders.look()
            if isinstance(event, GMIMessage) and isinstance(event.message, Holds):
                leaders.tell(event.message)
            if isinstance(event, GMIMessage) and isinstance(event.message, Report):
                for row in merger.add(event.gmi_id, event.message.row):
                    self._write(row | losses.facts, writers)
        return by_signal

    def _write(self, row: Row, writers: Writers) -> None:
        if self._ends_s is None and self.job.config.time_limit_s is not None:  # it starts with the first iteration
            began_s = time.monotonic() - sum(row[name] for name in PHASE_NAMES)
            self._ends_s = began_s + self.job.config.time_limit_s
        writers.write(row)
        self.on_row(row)

    def _is_late(self) -> bool:
        """Whether the time limit of the run has passed."""
        return self._ends_s is not None and time.monotonic() >= self._ends_s


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _usage(sampler: Sampler, since_s: float, until_s: float) -> Usage:
    """The utilisation over a time. Drops older readings, which are not needed again."""
    sampler.forget(since_s)
    return sampler.mean(since_s, until_s)
