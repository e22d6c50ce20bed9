"""How busy cores are, and with which processes."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from gmi_drl.units import counted

SHOWN = 3
"""Processes that are named, at most."""

WORTH_NAMING = 0.05
"""Share of a core from which a process is named."""

LOOK_S = 0.5
"""How long `overload` looks for processes."""


class CoreLoad:
    """How much of some cores other processes take, from construction on.

    Args:
        cores: The kernel's numbers of the cores.
    """

    def __init__(self, cores: Iterable[int]) -> None:
        self._cores = set(cores)
        self._started_s, self._busy_s, self._own_s = time.monotonic(), busy_s(self._cores), own_s()
        self._others_s = _seconds_of_others()

    def others(self) -> float:
        """The share of the cores' time so far that other processes took than this one and its children, 0 to 1."""
        others_s, _ = self.seconds()
        elapsed_s = time.monotonic() - self._started_s
        return min(max(0.0, others_s / max(elapsed_s * len(self._cores), 1e-9)), 1.0)

    def seconds(self) -> tuple[float, float]:
        """The seconds of CPU time so far of other processes, and of this one and its children."""
        ours_s = own_s() - self._own_s
        return busy_s(self._cores) - self._busy_s - ours_s, ours_s

    def takers(self) -> str:
        """The other processes that took most: `python3 (process 17 of ann) 98 %` of a core; empty if none is seen.

        They are looked for on all cores. Processes of other containers are not seen.
        """
        elapsed_s = max(time.monotonic() - self._started_s, 1e-9)
        taken = {pid: now - self._others_s.get(pid, 0.0) for pid, now in _seconds_of_others().items()}
        most = sorted(taken, key=taken.__getitem__, reverse=True)[:SHOWN]
        named = []
        for pid in most:
            share = taken[pid] / elapsed_s
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if share >= WORTH_NAMING:
                    named.append(f"{process.name()} (process {pid} of {process.username()}) {share:.0%}")
        return ", ".join(named)


def overload() -> str:
    """The load of this machine in the last minute, whose it is, and what helps; empty if every process had a core.

    A text such as `a load average of 64.0 on 16 cores, most of it this run's own: use fewer GMIs`. It looks at
    processes for `LOOK_S`.
    """
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load <= cores:
        return ""
    seen = CoreLoad(range(cores))
    time.sleep(LOOK_S)
    others_s, ours_s = seen.seconds()
    whose, remedy = "", "end other programs or wait for them, or use fewer GMIs"
    if ours_s > others_s:
        whose, remedy = ", most of it this run's own", "use fewer GMIs"
    elif others_s > ours_s:
        named = seen.takers()
        whose = ", most of it other programs" + (f", such as {named}" if named else "")
    return f"a load average of {load:.1f} on {counted(cores, 'core')}{whose}: {remedy}"


def busy_s(cores: set[int]) -> float:
    """Seconds since boot in which these CPUs were busy, or were withheld by a hypervisor."""
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.removeprefix("cpu").isdigit() and int(name.removeprefix("cpu")) in cores:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """CPU seconds of this process and all its descendants, including those that have ended."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    seconds = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])  # user and system, its own and those of children that it waited for
    return seconds


def _seconds_of_others() -> dict[int, float]:
    """CPU seconds of all processes that are seen, by pid, but for this one and its descendants."""
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    seconds = {}
    for process in psutil.process_iter():
        if process.pid not in ours:
            with suppress(psutil.Error):
                seconds[process.pid] = sum(process.cpu_times()[:2])
    return seconds
