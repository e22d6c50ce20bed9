"""The queue of a sweep: starts trials in free slots until all have ended."""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from select import POLLIN, poll

from gmi_drl.errors import InUseError, LayoutMismatchError, MachineError
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.launch.ray.cluster import RayNode, running_nodes
from gmi_drl.launch.signals import StopRequest
from gmi_drl.launch.sweep.early_stop import MedianRule
from gmi_drl.launch.sweep.search import with_next
from gmi_drl.launch.sweep.slots import Slot
from gmi_drl.launch.sweep.sweep_file import Sweep, Trial, write_sweep
from gmi_drl.launch.sweep.trial_process import Ended, TrialProcess, last_line, read_ended, write_ended
from gmi_drl.units import counted, quoted

LOOK_S = 1.0
"""Seconds between two looks at slots that were in use, and at returns for early stopping."""

STOP_S = 60.0
"""Seconds that stopped trials have to save a checkpoint; then they are killed."""

TRIES = 2
"""How often a trial is started that fails: a second time from its last checkpoint, as after a lack of memory."""

REFUSED = {2, 3, 4}
"""Exit codes of ours after which a second try would end the same."""


class Queue:
    """Runs the trials of a sweep.

    Args:
        folder: Of the sweep.
        sweep: What it runs.
        slots: Where.
        request: Of a signal, after which trials are stopped and the queue returns.
        on_end: Called with each trial that has ended for good, and `busy_s`.
        tell: Called with a line for the user.
        living_nodes: Returns the nodes of the Ray cluster.

    Attributes:
        busy_s: Seconds in which a trial ran: without those in which all waited for other runs.
    """

    def __init__(
        self,
        folder: Path,
        sweep: Sweep,
        slots: Sequence[Slot],
        request: StopRequest,
        on_end: Callable[[Trial, Ended, float], None] = lambda trial, ended, busy_s: None,
        tell: Callable[[str], None] = lambda text: None,
        living_nodes: Callable[[], Sequence[RayNode]] = running_nodes,
    ) -> None:
        self._living_nodes = living_nodes
        self.folder, self.sweep, self.slots, self.request, self.on_end = folder, sweep, list(slots), request, on_end
        self.tell, self._has_told = tell, False
        self.waiting = deque(trial for trial in sweep.trials if read_ended(folder, trial) is None)
        self.running: dict[int, TrialProcess] = {}
        self.rule = MedianRule(folder, sweep) if sweep.stop_early else None
        self._reaper: Reaper | None = None
        self._held: dict[int, ExitStack] = {}  # devices of other programs, by slot
        self._tries: Counter[str] = Counter()
        self._told: set[str] = set()  # trials of which the user knows that they wait
        self._not_before, self.busy_s = 0.0, 0.0

    def run(self) -> bool:
        """Run until all trials have ended. Returns whether they have; not after a signal."""
        with ExitStack() as life:
            if self.sweep.command is not None:  # our trainings end what they have started themselves
                self._reaper = life.enter_context(closing(Reaper()))
            life.callback(self._stop_all)
            while self._has_more() and self.request.signal is None:
                self._fill()
                self._wait()
                self._collect()
                self._stop_early()
        return not self._has_more()

    def _has_more(self) -> bool:
        return bool(self.waiting or self.running) or len(self.sweep.trials) < self.sweep.total

    def _fill(self) -> None:
        """Start trials in slots that are free, here and for other programs."""
        if time.monotonic() < self._not_before:
            return
        for slot in self.slots:
            if slot.number not in self.running and slot.is_free():
                self._ask()
                if self.waiting:
                    self._start(slot)
        if not self.running and not self._has_told:
            devices = ", ".join(device for slot in self.slots for device in slot.devices)
            self.tell(f"Waiting for {devices}: other runs use them (gmi-drl doctor names them)")
        self._has_told = not self.running

    def _ask(self) -> None:
        """Let the next combination of a search wait, if nothing else does."""
        if not self.waiting and len(self.sweep.trials) < self.sweep.total:
            known = len(self.sweep.trials)
            self.sweep = with_next(self.folder, self.sweep)
            write_sweep(self.folder, self.sweep)
            self.waiting.extend(self.sweep.trials[known:])
            if self.rule:
                self.rule.sweep = self.sweep

    def _start(self, slot: Slot) -> None:
        trial = self.waiting.popleft()
        if self._reaper is None:
            self.running[slot.number] = TrialProcess(self.folder, self.sweep, trial, slot)
            return
        with ExitStack() as held:
            try:
                held.enter_context(slot.held(f"sweep {self.folder}"))
            except InUseError as error:
                self._wait_for_others(trial, str(error))
                return
            process = TrialProcess(self.folder, self.sweep, trial, slot, self._reaper.watch_own_group)
            self.running[slot.number], self._held[slot.number] = process, held.pop_all()
        self._reaper.watch(process.leader.pid)

    def _drop(self, number: int) -> None:
        """Forget a process that has ended, with its group."""
        process = self.running.pop(number)
        if self._reaper is not None:
            self._reaper.forget(process.leader.pid)
        if number in self._held:
            self._held.pop(number).close()

    def _wait(self) -> None:
        """Wait until a process ends, at most `LOOK_S`."""
        events = poll()
        for process in self.running.values():
            events.register(process.leader.exit_fd, POLLIN)
        began = time.monotonic()
        events.poll(LOOK_S * 1000)
        if self.running:
            self.busy_s += time.monotonic() - began

    def _collect(self) -> None:
        for number, process in list(self.running.items()):
            if (ended := process.end()) is not None:
                self._drop(number)
                node = process.slot.node
                if node is not None and ended.exit_code == LayoutMismatchError.exit_code and not self._lives(node):
                    self.waiting.appendleft(process.trial)
                    self._lose(node, last_line(self.folder, process.trial))
                else:
                    self._end(process.trial, ended)

    def _lives(self, node: RayNode) -> bool:
        """Whether a node is in its cluster. If so, the training is at fault that it refuses."""
        return node.id in [living.id for living in self._living_nodes()]

    def _lose(self, node: RayNode, why: str) -> None:
        """Use a node no more that has left its cluster.

        Raises:
            MachineError: if none is left.
        """
        if gone := [slot for slot in self.slots if slot.node == node]:
            self.slots = [slot for slot in self.slots if slot not in gone]
            self.tell(f"{node.name} gets no more trainings, {counted(len(gone), 'slot')} less: {why}")
        if not self.slots:
            command = f"gmi-drl sweep --resume {quoted(self.folder)}"
            raise MachineError(f"no node of the Ray cluster is left: go on with {command}")

    def _end(self, trial: Trial, ended: Ended) -> None:
        """Keep how a trial has ended, or let it wait again."""
        if ended.exit_code == InUseError.exit_code and self.sweep.command is None:
            self._wait_for_others(trial, last_line(self.folder, trial))
            return
        self._tries[trial.name] += 1
        is_refused = ended.exit_code in REFUSED and self.sweep.command is None
        if ended.has_failed and not is_refused and self._tries[trial.name] < TRIES:
            self.waiting.append(trial)
            return
        write_ended(self.folder, trial, ended)
        self.on_end(trial, ended, self.busy_s)

    def _wait_for_others(self, trial: Trial, why: str) -> None:
        """Let a trial wait again: another run was faster, and has its device or its folder."""
        self._not_before = time.monotonic() + LOOK_S
        self.waiting.appendleft(trial)
        if trial.name not in self._told:
            self._told.add(trial.name)
            self.tell(f"{trial.name} waits: {why}")

    def _stop_early(self) -> None:
        for process in self.running.values() if self.rule else ():
            assert self.rule is not None
            if not process.is_stopped_early and self.rule.is_hopeless(process.trial):
                process.stop(early=True)

    def _stop_all(self) -> None:
        """Stop what still runs, and wait for it."""
        for process in self.running.values():
            process.stop()
        deadline, stopped = time.monotonic() + STOP_S, list[tuple[Trial, Ended | None]]()
        try:
            for process in self.running.values():
                process.leader.exit_code(deadline - time.monotonic())
        finally:  # also if a second signal ends the waiting
            for number, process in list(self.running.items()):
                if (ended := process.end()) is None:
                    process.kill()
                stopped.append((process.trial, ended))
                self._drop(number)
        for trial, ended in stopped:
            if ended is not None and ended.early:  # it is not run again
                self._end(trial, ended)
            else:
                self.waiting.append(trial)
