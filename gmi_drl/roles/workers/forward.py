"""The forward pass over requests of actors: actions, densities and values (SRL, section 2.2.1)."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.algo.networks.memory import Past
from gmi_drl.layout.experience import Kind, RolloutForm
from gmi_drl.workload import TaskSpec

ACT, VALUE = QUESTIONS = 0, 1
"""What a request asks: actions for observations, or the values of observations that follow time-outs."""

Tensors = dict[str, Tensor]


def request_kinds(spec: TaskSpec, num_env: int, state_size: int) -> tuple[Kind, ...]:
    """The tensors of a request of `num_env` environments.

    Noise and the state of a policy's memories come with the observations: whoever answers keeps nothing.
    """
    seen = spec.observation
    state = (Kind("state", (num_env, state_size)),) if state_size else ()
    return (Kind("obs", (num_env, *seen.shape), dtype=seen.dtype), Kind("noise", (num_env, spec.action.params)), *state)


def answer_kinds(spec: TaskSpec, num_env: int, state_size: int) -> tuple[Kind, ...]:
    """The tensors of its answer. `value` answers `VALUE`, the others `ACT`."""
    state = (Kind("state", (num_env, state_size)),) if state_size else ()
    return (
        Kind("action", (num_env, spec.action.size)),
        Kind("log_prob", (num_env,)),
        Kind("value", (num_env,)),
        *state,
    )


def kinds_of(spec: TaskSpec, form: RolloutForm, members: int) -> tuple[tuple[Kind, ...], tuple[Kind, ...]]:
    """The tensors of requests and of answers, for a ring of so many members that plays rollouts of this form."""
    num_env = form.num_env // members
    return request_kinds(spec, num_env, form.state_size), answer_kinds(spec, num_env, form.state_size)


class Answering(Protocol):
    """Answers requests together."""

    def __call__(self, agent: Agent, what: int, requests: Sequence[Tensors], answers: Sequence[Tensors]) -> None:
        """Write the answers to requests that ask the same. It waits for a GPU: then the answers are whole."""


class Forward:
    """Answers requests together, as one batch of their size, on cores. `gpu_forward` is for GPUs."""

    @torch.no_grad()
    def __call__(self, agent: Agent, what: int, requests: Sequence[Tensors], answers: Sequence[Tensors]) -> None:
        """See `Answering`."""
        obs, state = self._joined(requests, "obs"), None
        if "state" in requests[0]:
            state = self._joined(requests, "state").clone()  # of one request it is the request's own
        if what == VALUE:
            _deal(answers, value=agent.value(obs, None if state is None else Past(state)))
            return
        action, params, _ = agent.sample(obs, self._joined(requests, "noise"), state)
        _deal(answers, action=action, log_prob=agent.policy.log_prob(action, params), state=state)

    def _joined(self, requests: Sequence[Tensors], name: str) -> Tensor:
        """A tensor of all requests, row by row; that of a single one is not copied."""
        parts = [request[name] for request in requests]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _deal(answers: Sequence[Tensors], **results: Tensor | None) -> None:
    """Write each answer its rows of the results."""
    for name, result in results.items():
        if result is not None:
            for answer, rows in zip(answers, result.chunk(len(answers)), strict=True):
                answer[name].copy_(rows)
