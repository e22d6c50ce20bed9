"""The seconds of an iteration, by phase."""

import time
from itertools import pairwise

import torch

from gmi_drl.run.phases import PhaseName


class PhaseClock:
    """Sums the time of named phases. Each `mark` ends a phase that began at the mark before.

    On a GPU marks are CUDA events in the stream: only `read` waits for the device.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._marks: list[tuple[str, float | torch.cuda.Event]] = []

    def start(self) -> None:
        """Begin an iteration."""
        self._marks = [("", self._now())]

    def mark(self, phase: PhaseName) -> None:
        """End a phase."""
        self._marks.append((phase, self._now()))

    def read(self) -> dict[str, float]:
        """Seconds by phase since `start`."""
        seconds: dict[str, float] = {}
        before = self._marks[0][1]
        if isinstance(self._marks[-1][1], torch.cuda.Event):
            self._marks[-1][1].synchronize()
        for phase, now in self._marks[1:]:
            seconds[phase] = seconds.get(phase, 0.0) + _between(before, now)
            before = now
        return seconds

    def laps(self, phase: PhaseName) -> list[float]:
        """Seconds from each end of a phase to the next, the first from `start`. After `read`, which waits."""
        ends = [self._marks[0][1], *(now for name, now in self._marks if name == phase)]
        return [_between(before, now) for before, now in pairwise(ends)]

    def _now(self) -> float | torch.cuda.Event:
        if not self._on_gpu:
            return time.perf_counter()
        event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _between(before: float | torch.cuda.Event, now: float | torch.cuda.Event) -> float:
    if isinstance(before, torch.cuda.Event) and isinstance(now, torch.cuda.Event):
        return float(before.elapsed_time(now)) / 1000
    assert isinstance(before, float) and isinstance(now, float)
    return now - before
