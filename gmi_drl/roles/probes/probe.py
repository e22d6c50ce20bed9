"""Probes: roles that measure iterations (paper section 5.2, Algorithm 2's `profile`)."""

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
from typing import Any, Protocol

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
    """Iterates as a GMI does, with as many environments as the launcher asks for, and reports how long that took.

    The probe of a learner is a `ReplicaProbe`; others define their iterations.

    Attributes:
        sample_share: Samples that this GMI learns from divided by those of all, in the current measurement.
    """

    sample_share: float = 1.0

    def GMI_run(self) -> None:
        """Measure as the launcher asks, until it sends `Stop`."""
        self.config = self.mgr.configure()
        self.mgr.launcher.deliver(Ready(self._compile()))
        for order in self._orders():
            self.sample_share = order.sample_share
            self.mgr.launcher.deliver(Report(self._measure(order.num_env, order.seconds)))

    def make_task(self, num_env: int, seed: int) -> Task:
        """The task to measure; a subclass may make another one, which it adds to `mgr.tasks`."""
        return open_task(self.mgr, self.config, num_env, seed)

    def _compile(self) -> float:
        """Seconds to make and step one environment: in its first calls a simulator may compile for minutes."""
        started = time.monotonic()
        task = self.make_task(1, seed=0)
        task.step(torch.zeros(task.num_env, task.spec.action.size, device=task.device))
        return time.monotonic() - started

    def _orders(self) -> Iterator[Measure]:
        """The launcher's requests, until it sends `Stop`. If the launcher has gone, the process exits."""
        while True:
            for message in self.mgr.launcher.await_messages(WAIT_S):
                if message == Stop():
                    return
                assert isinstance(message, Measure)
                yield message

    def _measure(self, num_env: int, seconds: float) -> dict[str, Any]:
        """Iterate for about `seconds`, at least once, after a warm-up. Returns means over the iterations."""
        close_tasks(self.mgr.tasks)  # before the next task is made, or the peak would count both
        self.detach_task()
        _forget_peak(self.mgr.device)
        self.attach_task(self.make_task(num_env, self.seed("task")))
        self._left = max(1, round(seconds / self._warm_up()))
        phases: Counter[str] = Counter()
        decision, times, began_s = Decision.GO_ON, list[float](), time.monotonic()
        while decision is Decision.GO_ON:
            started = time.monotonic()
            decision = self.iterate(self._decide)
            phases.update(self.phases())
            times.append(time.monotonic() - started)
        means = {name: value / len(times) for name, value in phases.items()}
        speed = {"iterations": len(times), "iteration_s": fmean(times), "relative_error": relative_error(times)}
        memory = {"memory_bytes": _peak_bytes(self.mgr.device), "host_bytes": _peak_bytes(torch.device("cpu"))}
        return {"num_env": num_env, "began_s": began_s, "ended_s": time.monotonic(), **speed, **memory, **means}

    def _warm_up(self) -> float:
        """Iterate until all iterations take equally long. Returns the seconds of the last one.

        The last of `warm_up_iterations` captures graphs on a GPU, so one more is timed there.
        """
        one_more = self.mgr.device.type != "cpu"
        for _ in range(self.warm_up_iterations + one_more):
            started = time.monotonic()
            self.iterate(lambda: Decision.GO_ON)
            self.phases()
        return time.monotonic() - started

    def _decide(self) -> Decision:
        """Stop after the number of iterations that fits by the warm-up's time; rank 0's number counts, for all."""
        self._left -= 1
        return Decision.GO_ON if self._left > 0 else Decision.STOP

    def seed(self, purpose: str) -> int:
        """This GMI's seed for a purpose ("task", "agent", "learner")."""
        return seed_of(self.config, 0, self.GMI_id, purpose)

    @abstractmethod
    def iterate(self, decide: Callable[[], Decision]) -> Decision:
        """One iteration. `decide` returns whether another one follows; in a group rank 0's result counts."""

    @abstractmethod
    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`phases.PHASES`)."""

    @property
    def warm_up_iterations(self) -> int:
        """Iterations until all take equally long."""
        return 1

    @abstractmethod
    def detach_task(self) -> None:
        """Release the last task, which is closed, and all that was made for it, if there was one."""

    @abstractmethod
    def attach_task(self, task: Task) -> None:
        """Iterate in this task from now on."""


class ReplicaProbe(Probe):
    """Trains as a learner's role does: a subclass makes the same replica, a new one for each number of environments.

    A replica whose parameters are in a reduction's only bucket must stay instead: `LastingReplicaProbe`.
    """

    replica: Replica | None = None
    task: Task | None = None

    @abstractmethod
    def make_replica(self, task: Task) -> Replica:
        """The replica of the learner's role, for this task and `sample_share`."""

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
        gc.collect()  # what was made for the task may be part of cycles

    def attach_task(self, task: Task) -> None:
        """See `Probe`."""
        self.task, self.replica = task, self.make_replica(task)


class LastingReplica(Replica, Protocol):
    """A replica whose learner stays when its environments are changed."""

    @property
    def warm_up_iterations(self) -> int:
        """Iterations until all take equally long."""

    def attach_task(self, task: Task, seed: int) -> None:
        """Act in this task from now on; `seed` is of the noise."""

    def detach_task(self) -> None:
        """Release the task, and what was made for it."""


class LastingReplicaProbe(ReplicaProbe):
    """The learner stays when the number of environments changes, so that all numbers share one start-up.

    `make_replica` returns a replica without a task.
    """

    replica: LastingReplica | None = None

    @property
    def warm_up_iterations(self) -> int:
        """See `Probe`."""
        assert self.replica is not None
        return self.replica.warm_up_iterations

    @abstractmethod
    def make_replica(self, task: Task) -> LastingReplica:
        """See `ReplicaProbe`."""

    @abstractmethod
    def set_share(self, task: Task) -> None:
        """Let the replica learn with `sample_share`."""

    def detach_task(self) -> None:
        """See `Probe`."""
        if self.replica is not None:
            self.replica.detach_task()

    def attach_task(self, task: Task) -> None:
        """See `Probe`."""
        self.replica = self.replica or self.make_replica(task)
        self.set_share(task)
        self.replica.attach_task(task, self.seed("agent"))


def relative_error(times: Sequence[float]) -> float:
    """Standard error of the mean, divided by the mean, of iterations that took `times` seconds.

    For a single one it is not known, which 0 stands for: the warm-up is slower and cannot be compared.
    """
    return stdev(times) / math.sqrt(len(times)) / fmean(times) if len(times) > 1 else 0.0


def _forget_peak(device: torch.device) -> None:
    """Return free memory to the system, and restart the counting of peaks where the kernel allows it."""
    with suppress(AttributeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # CUDA's own pool, which Warp uses, returns free memory at a synchronisation
        forget_shared_memory()  # of graphs, which have gone with their task
        with suppress(OSError, AttributeError):  # memory of graphs, only when asked; a GMI sees one GPU
            ctypes.CDLL("libcuda.so.1").cuDeviceGraphMemTrim(0)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def _peak_bytes(device: torch.device) -> int:
    """Peak memory of this process on the device: on a GPU of torch and Warp, else resident memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) + warp_bytes(device)
    status = Path("/proc/self/status").read_text()  # not getrusage, whose peak includes the launcher's
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
