"""The probe: an iteration that is measured instead of kept (paper section 5.2, Algorithm 2's `profile`)."""

import ctypes
import gc
import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from gmi_drl.cuda_graph import forget_shared_memory
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.protocol import Measure, Ready, Report, Stop
from gmi_drl.roles.open_tasks import close_tasks, open_task
from gmi_drl.roles.seeds import seed_of
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.replica import Replica
from gmi_drl.tasks import Task
from gmi_drl.tasks.sim.engine import warp_bytes

WAIT_S = 1.0


class Probe(DRL_role):
    """Iterates as a GMI does, with as many environments as the launcher says, and tells how fast that was.

    A learner's is a `ReplicaProbe`; one that trains nothing has iterations of its own.

    Attributes:
        sample_share: Samples that this GMI learns from divided by those of all, in the measurement at hand.
    """

    sample_share: float = 1.0

    def GMI_run(self) -> None:
        """Measure what is asked for, until the launcher says stop."""
        self.config = self.mgr.configure()
        self.mgr.launcher.deliver(Ready(self._compile()))
        for order in self._orders():
            self.sample_share = order.sample_share
            self.mgr.launcher.deliver(Report(self._measure(order.num_env, order.seconds)))

    def make_task(self, num_env: int, seed: int) -> Task:
        """The worlds to measure; a subclass may make others, which it adds to `mgr.tasks`."""
        return open_task(self.mgr, self.config, num_env, seed)

    def _compile(self) -> float:
        """Make and step one world, in seconds: in its first calls a simulator may compile for minutes."""
        started = time.monotonic()
        task = self.make_task(1, seed=0)
        task.step(torch.zeros(1, task.spec.num_actions, device=task.device))
        return time.monotonic() - started

    def _orders(self) -> Iterator[Measure]:
        """What the launcher asks for, until it says stop. One that has gone ends the process."""
        while True:
            for word in self.mgr.launcher.await_messages(WAIT_S):
                if word == Stop():
                    return
                assert isinstance(word, Measure)
                yield word

    def _measure(self, num_env: int, seconds: float) -> dict[str, Any]:
        """Iterate for about so long, once at least after the warm-up; means over the iterations."""
        close_tasks(self.mgr.tasks)  # before the next worlds are made, or the peak would count both
        self.detach_task()
        _forget_peak(self.mgr.device)
        self.attach_task(self.make_task(num_env, self.seed("task")))
        self._left = max(1, round(seconds / self._warm_up()))
        phases: Counter[str] = Counter()
        word, times, began_s = Decision.GO_ON, list[float](), time.monotonic()
        while word is Decision.GO_ON:
            started = time.monotonic()
            word = self.iterate(self._decide)
            phases.update(self.phases())
            times.append(time.monotonic() - started)
        means = {name: value / len(times) for name, value in phases.items()}
        speed = {"iterations": len(times), "iteration_s": fmean(times), "relative_error": relative_error(times)}
        memory = {"memory_bytes": _peak_bytes(self.mgr.device), "host_bytes": _peak_bytes(torch.device("cpu"))}
        return {"num_env": num_env, "began_s": began_s, "ended_s": time.monotonic(), **speed, **memory, **means}

    def _warm_up(self) -> float:
        """Iterate until each iteration is like the next. Returns the seconds that the last one took.

        The last of `warm_up_iterations` captures graphs on a GPU, so one more is timed there.
        """
        one_more = self.mgr.device.type != "cpu"
        for _ in range(self.warm_up_iterations + one_more):
            started = time.monotonic()
            self.iterate(lambda: Decision.GO_ON)
            self.phases()
        return time.monotonic() - started

    def _decide(self) -> Decision:
        """Stop when as many iterations are done as the warm-up promised; rank 0's count is everybody's."""
        self._left -= 1
        return Decision.GO_ON if self._left > 0 else Decision.STOP

    def seed(self, purpose: str) -> int:
        """What this GMI draws from for a purpose ("task", "agent", "learner")."""
        return seed_of(self.config, 0, self.GMI_id, purpose)

    @abstractmethod
    def iterate(self, decide: Callable[[], Decision]) -> Decision:
        """One iteration. `decide` says whether another one follows; where GMIs must agree rank 0's answer counts."""

    @abstractmethod
    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`phases.PHASES`)."""

    @property
    def warm_up_iterations(self) -> int:
        """Iterations until each is like the next."""
        return 1

    @abstractmethod
    def detach_task(self) -> None:
        """Let go of the worlds, which are closed, and of all that was made for them, if there are any."""

    @abstractmethod
    def attach_task(self, task: Task) -> None:
        """Iterate in these worlds from now on."""


class ReplicaProbe(Probe):
    """Trains as a learner's role does: a subclass makes the same replica, anew for each number of environments.

    A replica whose parameters lie in a reduction's bucket must stay instead, because a reduction has one: its probe
    overrides `detach_task` and `attach_task`, as `PPOProbe` does.
    """

    replica: Replica | None = None
    task: Task | None = None

    @abstractmethod
    def make_replica(self, task: Task) -> Replica:
        """What trains in these worlds, with this `sample_share`: that of the learner's role."""

    def iterate(self, decide: Callable[[], Decision]) -> Decision:
        """See `Probe`."""
        assert self.replica is not None
        return self.replica.iterate(decide).decision

    def phases(self) -> dict[str, float]:
        """See `Probe`."""
        assert self.replica is not None
        return self.replica.phases()

    def detach_task(self) -> None:
        """See `Probe`."""
        self.task = self.replica = None
        gc.collect()  # what was made for them may be part of cycles

    def attach_task(self, task: Task) -> None:
        """See `Probe`."""
        self.task, self.replica = task, self.make_replica(task)


def relative_error(times: Sequence[float]) -> float:
    """Standard error of the mean over the mean, of iterations that took `times` seconds.

    0, which says that it is not known, for a single one: nothing tells how another would differ, and the warm-up is
    slower than what follows.
    """
    return stdev(times) / math.sqrt(len(times)) / fmean(times) if len(times) > 1 else 0.0


def _forget_peak(device: torch.device) -> None:
    """Give back what is free, and let peaks count from now on, where the kernel allows it."""
    with suppress(AttributeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # CUDA's own pool, which is Warp's, gives back what is free when somebody waits
        forget_shared_memory()  # of graphs, which have gone with their worlds
        with suppress(OSError, AttributeError):  # and what graphs had allocated when it is asked; a GMI sees one GPU
            ctypes.CDLL("libcuda.so.1").cuDeviceGraphMemTrim(0)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _peak_bytes(device: torch.device) -> int:
    """Most memory that this process has held on the device: on a GPU what torch and Warp have, else resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) + warp_bytes(device)
    status = Path("/proc/self/status").read_text()  # not getrusage: that knows the peak of the launcher, too
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
