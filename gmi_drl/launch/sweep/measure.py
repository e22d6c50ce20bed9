"""How many trials at once end soonest: measured by short trainings side by side."""

import math
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from gmi_drl.errors import GmiError
from gmi_drl.launch.signals import StopRequest
from gmi_drl.launch.sweep.memory import Memory
from gmi_drl.launch.sweep.slots import Slot
from gmi_drl.launch.sweep.sweep_file import Sweep, Trial
from gmi_drl.launch.sweep.trial_process import TrialProcess, last_line
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

PROBE_S = 10.0
"""Seconds that each number of trials is measured, after all have begun."""

LOOK_S = 0.5

START_S = 300.0
"""Seconds in which a probe must have its first rows."""

MOST_PER_DEVICE = 4
"""Trials on one core or GPU that are tried at most."""

WORSE = 0.9
"""A number of trials that has less than this share of the best speed ends the walk."""


def candidates(trials: int, devices: int) -> list[int]:
    """Numbers of trials to measure: 1, 2, 4, ..., as many as there are devices, and up to `MOST_PER_DEVICE` of them."""
    most = min(trials, devices * MOST_PER_DEVICE)
    powers = {2**exponent for exponent in range(most.bit_length())}
    return sorted(number for number in powers | {devices, most} if number <= most)


def soonest(speeds: dict[int, float], trials: int) -> int:
    """The number of trials at once by which all are done first: the last round may not be full.

    Args:
        speeds: Steps/s of all trials together, by how many ran at once; 0 if they told none.
        trials: How many there are.
    """
    rounds = {number: math.ceil(trials / number) for number in speeds}
    ends = {number: rounds[number] * number / speed if speed else math.inf for number, speed in speeds.items()}
    return min(ends, key=lambda number: (ends[number], number))


def measure(
    folder: Path,
    sweep: Sweep,
    numbers: Iterable[int],
    slots_for: Callable[[int], list[Slot]],
    hold: Callable[[list[Slot]], AbstractContextManager[None]],
    request: StopRequest,
    tell: Callable[[str], None],
) -> dict[int, float]:
    """Steps/s of all trials together for several numbers at once, as far as there is memory.

    Args:
        folder: Of the sweep; probes have folders in it while they run.
        sweep: Its first trial is the probe.
        numbers: Ascending.
        slots_for: The slots of a number of trials.
        hold: Holds what slots share, for a `with` block.
        request: Of a signal, which ends measuring.
        tell: Called with a line for the user.

    Raises:
        GmiError: if a probe fails that runs alone. Of several, it ends the measurement: this machine has not enough.
    """
    speeds: dict[int, float] = {}
    memory = Memory()
    for number in numbers:
        if lack := memory.lack(number):
            tell(f"{number} at once would need {lack}: not tried")
            break
        slots = slots_for(number)
        try:
            with hold(slots):
                speed = _measure(folder, sweep, slots, request, memory)
        except GmiError as error:
            if not speeds:
                raise
            tell(f"{number} at once: this machine has not enough for them: {error}")
            break
        if request.signal is not None:
            break
        speeds[number] = speed
        tell(f"{number} at once: {speed:,.0f} steps/s together")
        if speed < WORSE * max(speeds.values()):
            break
    return speeds


def _measure(folder: Path, sweep: Sweep, slots: Sequence[Slot], request: StopRequest, memory: Memory) -> float:
    """Steps/s of one trial in each slot, together."""
    probes = folder / ".probes"
    shutil.rmtree(probes, ignore_errors=True)
    probes.mkdir()
    first = sweep.trials[0]
    endless = sweep.model_copy(update={"arguments": (*_without_iterations(sweep.arguments), "--iterations", "1000000")})
    trials = [Trial(name=f"probe{slot.number}", seed=slot.number, settings=first.settings) for slot in slots]
    running: list[TrialProcess] = []
    try:
        for trial, slot in zip(trials, slots, strict=True):
            running.append(TrialProcess(probes, endless, trial, slot))
        _run(running, request, memory)
        return sum(_speed(process) for process in running)
    finally:
        try:
            for process in running:
                process.stop()
            for process in running:
                process.leader.exit_code(30)
        finally:  # also if a second signal ends the waiting
            for process in running:
                process.kill()
            shutil.rmtree(probes, ignore_errors=True)


def _run(running: Sequence[TrialProcess], request: StopRequest, memory: Memory) -> None:
    """Wait until all probes have two rows, and `PROBE_S` more."""
    begun, deadline = 0.0, time.monotonic() + START_S
    while request.signal is None and (not begun or time.monotonic() < begun + PROBE_S):
        time.sleep(LOOK_S)
        memory.look([process.leader.pid for process in running])
        for process in running:
            if process.leader.exit_code(0) is not None:
                line = last_line(process.folder, process.trial)
                raise GmiError(f"a training to measure by has ended ({line}): with --at-once N none is measured")
        if not begun and all(len(read_metrics(_metrics(process))) > 1 for process in running):
            begun = time.monotonic()
        if not begun and time.monotonic() > deadline:
            raise GmiError(
                f"no training to measure by has begun within {START_S:.0f} s: with --at-once N none is measured"
            )


def _speed(process: TrialProcess) -> float:
    speeds = [row["steps_per_second"] for row in read_metrics(_metrics(process))[1:] if row.get("steps_per_second")]
    return median(speeds) if speeds else 0.0


def _metrics(process: TrialProcess) -> Path:
    return RunFolder(process.folder / process.trial.name).metrics_file


def _without_iterations(arguments: Sequence[str]) -> list[str]:
    """Options of a trial without the number of its iterations."""
    kept = list(arguments)
    while "--iterations" in kept:
        place = kept.index("--iterations")
        del kept[place : place + 2]
    return kept
