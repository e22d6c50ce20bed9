"""The policy of a policy worker: one copy answers while a thread reads the newest version into another.

So no request waits for a copy, unless it asks for a version that is not here yet.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import torch

from gmi_drl.algo.agent import Agent
from gmi_drl.comm.parameters.shared_memory import Parameters
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.workload import TaskSpec


class Reader(Protocol):
    """Reads the parameters that trainers publish: `channels.ParameterReader`, or one of `comm.parameters`."""

    parameters: Parameters

    def await_version(self, version: int) -> bool:
        """Wait for a version.

        Returns:
            Whether it is published: False as soon as trainers are known to be more than one version behind it.
        """

    @property
    def keepalives(self) -> object:
        """A value that changes whenever a keepalive of a trainer arrives."""

    def finish(self) -> None:
        """Wait until nobody needs this one to pass parameters on, unless something has failed."""

    def close(self) -> None:
        """Read no more."""


class PolicyCopy:
    """An agent, and its version.

    Args:
        spec: The task's sizes.
        config: Of the run.
        device: Of the agent.
    """

    def __init__(self, spec: TaskSpec, config: RunConfig, device: torch.device) -> None:
        self.agent, vector = new_actor_critic(spec, config, device)
        self._statistics = torch.zeros_like(self.agent.normaliser.statistics)
        self.tensors = [vector, self._statistics]
        self.version: int | None = None

    def read(self, reader: Reader) -> None:
        """Read the newest version. Waits for the first."""
        self.version = reader.parameters.read_into(self.tensors)
        self.agent.normaliser.load(self._statistics)


class NewestPolicy:
    """Two copies of a policy in turn.

    Args:
        copies: Two.
        reader: Of the parameters.

    Attributes:
        wait_s: Seconds that requests have waited so far for a version.
    """

    def __init__(self, copies: tuple[PolicyCopy, PolicyCopy], reader: Reader) -> None:
        self._now, self._next = copies
        self._reader, self.wait_s = reader, 0.0
        self._thread = ThreadPoolExecutor(1, "newest-policy")
        self._reading: Future[None] | None = None

    def at_least(self, version: int) -> tuple[Agent, int] | None:
        """The agent by the newest version that is here, and that version; it waits until that is `version`.

        Returns:
            None as soon as trainers are known to be more than one version behind `version`.

        Raises:
            PeerDiedError: If the trainers have ended before they published such a version.
            PeerSilentError: If they have not published it for some times `hang_s`.
        """
        if self._reading is not None and self._reading.done():
            self._swap()
        here = self._now.version
        if here is None or here < version:
            if (here := self._await(version)) is None:
                return None
        elif self._reading is None and self._reader.parameters.newest_version() != here:
            self._read()
        return self._now.agent, here

    def close(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown()

    def _await(self, version: int) -> int | None:
        """Wait for a version. What is being read already may be older; what is read next is not."""
        began = time.perf_counter()
        if not self._reader.await_version(version):
            self.wait_s += time.perf_counter() - began
            return None
        while (here := self._now.version) is None or here < version:
            if self._reading is None:
                self._read()
            self._swap()
        self.wait_s += time.perf_counter() - began
        return here

    def _read(self) -> None:
        """Read the newest version into the other copy, in the thread."""
        self._reading = self._thread.submit(self._next.read, self._reader)

    def _swap(self) -> None:
        """Answer by the other copy from now on, when it is read."""
        assert self._reading is not None
        self._reading.result()
        self._reading = None
        self._now, self._next = self._next, self._now
