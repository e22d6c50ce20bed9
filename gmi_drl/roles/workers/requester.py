"""Asks for the actions of the rows of a ring that one policy acts in, and keeps the states of its memories there."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.comm.streams import Answer
from gmi_drl.config.learners import OurConfig
from gmi_drl.roles.workers.forward import ACT, Tensors
from gmi_drl.tasks import Task


class Inference(Protocol):
    """Gives actions: `comm.streams.StreamClient` or `comm.streams.inline.InlineStream`."""

    requests: list[Tensors]
    wait_s: float

    def post(self, member: int, what: int = 0, version: int = 0) -> None:
        """See `StreamClient.post`."""

    def take(self, member: int) -> Answer:
        """See `StreamClient.take`."""


class Requester:
    """Posts requests for a policy's rows of each member of a ring, and takes their answers.

    Args:
        tasks: Of the members, alike, on a CPU.
        inference: Gives actions. A member's requests have its rows.
        config: Of the policy's learner.
        rows: Int64, the rows of each task that the policy acts in; None: all.
    """

    def __init__(
        self, tasks: Sequence[Task], inference: Inference, config: OurConfig, rows: Tensor | None = None
    ) -> None:
        self.rows, self._tasks, self._inference = rows, tasks, inference
        self._each = tasks[0].num_env if rows is None else len(rows)
        size = config.network.state_size(tasks[0].spec.observation)
        self._states = [torch.zeros(self._each, size) for _ in tasks] if size else None

    def _ask(self, member: int, noise: Tensor, version: int = 0) -> None:
        """Ask for a member's actions with noise `[N, P]`, by a version of the policy or a later one."""
        request = self._inference.requests[member]
        request["obs"].copy_(self._seen(member))
        request["noise"].copy_(noise)
        if self._states is not None:
            request["state"].copy_(self._states[member])
        self._inference.post(member, ACT, version)

    def _answer(self, member: int) -> Answer:
        """Wait for a member's actions."""
        answer = self._inference.take(member)
        if self._states is not None:
            self._states[member].copy_(answer.tensors["state"])
        return answer

    def _forget(self, member: int, ended: Tensor) -> None:
        """Begin anew in those of the policy's rows, bool `[N]`, whose episodes have ended."""
        if self._states is not None:
            self._states[member].masked_fill_(ended[:, None], 0)

    def _of(self, tensor: Tensor) -> Tensor:
        """The policy's rows of a tensor."""
        return tensor if self.rows is None else tensor[self.rows]

    def _seen(self, member: int) -> Tensor:
        return self._of(self._tasks[member].obs)
