"""Inline inference: the agent is in the actor's own process, so a stream needs neither slots nor another process."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gmi_drl.comm.streams.client import Answer
from gmi_drl.errors import UsageError
from gmi_drl.layout.experience import Kind

Tensors = dict[str, Tensor]


class InlineStream:
    """Posts requests and takes answers as `StreamClient` does. A batch is what the ring has ready.

    Args:
        request: The tensors of a request.
        answer: The tensors of an answer.
        members: Of the ring.
        respond: Writes the answers to requests that ask the same, and returns the version of the policy.

    Attributes:
        wait_s: 0: it waits for nobody.
    """

    wait_s = 0.0

    def __init__(
        self,
        request: Sequence[Kind],
        answer: Sequence[Kind],
        members: int,
        respond: Callable[[int, Sequence[Tensors], Sequence[Tensors]], int],
    ) -> None:
        self.requests = [_zeros(request) for _ in range(members)]
        self._answers = [_zeros(answer) for _ in range(members)]
        self._respond = respond
        self._open: dict[int, int] = {}  # what members ask that have no answer yet
        self._given: dict[int, Answer] = {}  # that were not taken
        self._rows = request[0].shape[0]

    def post(self, member: int, what: int = 0, version: int = 0) -> None:
        """See `StreamClient.post`. The agent of the process must have that version already."""
        if member in self._open or member in self._given:
            raise UsageError(f"member {member} has a request under way: take its answer before the next is posted")
        self._open[member] = what

    def take(self, member: int) -> Answer:
        """See `StreamClient.take`: compute it, with the answers to all others that ask the same."""
        if member in self._open:
            alike = [one for one, what in self._open.items() if what == self._open[member]]
            requests, answers = ([tensors[one] for one in alike] for tensors in (self.requests, self._answers))
            began = time.perf_counter()
            version = self._respond(self._open[member], requests, answers)
            took_s, rows = time.perf_counter() - began, self._rows * len(alike)
            for one in alike:
                del self._open[one]
                self._given[one] = Answer(version, rows, took_s, self._answers[one])
        if member not in self._given:
            raise UsageError(f"member {member} has no request under way: post one first")
        return self._given.pop(member)


def _zeros(kinds: Sequence[Kind]) -> Tensors:
    return {kind.name: torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype)) for kind in kinds}
