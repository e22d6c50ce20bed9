"""A task that is simulated on other GMIs, for an agent on a GMI of its own."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import PeerDiedError
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.peer import CLOSE, Peer
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks.task import checked_action
from gmi_drl.tasks.terms import RewardTerms
from gmi_drl.workload import spec_of


class RemoteTask:
    """A `Task` with the environments of several simulators. Every step is one message to each and one back.

    `final_obs` comes from the simulators only where an episode ended, and is `obs` elsewhere, to halve the traffic.

    Args:
        simulators: The GMIs that simulate; this waits until they have loaded.
        device: Of this GMI.

    Attributes:
        simulated_s: Seconds of the slowest simulator, summed over the steps since the caller set this to 0. The rest of
            a step's time is the cost of having GMIs apart.
    """

    obs: Tensor
    episode_length: Tensor
    _may_be_staggered: bool

    def __init__(self, simulators: Sequence[Peer], device: torch.device) -> None:
        self._simulators, self.device = tuple(simulators), device
        greetings = [simulator.receive(LOADING_S) for simulator in simulators]
        first = greetings[0]
        self.spec = spec_of(first["spec"])
        self.counts_by_itself: bool = first["counts_by_itself"]
        self.reward_terms = RemoteTerms(first["terms"], self._simulators, device) if first["terms"] else None
        self._sizes = [len(greeting["obs"]) for greeting in greetings]
        self.num_env = sum(self._sizes)
        self.simulated_s = 0.0
        self._begin(greetings)

    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._begin(self._request_all("reset"))
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`."""
        actions = torch.split(checked_action(action, self), self._sizes)
        lengths: Iterable[Tensor | None] = [None] * len(self._sizes)
        if self._may_be_staggered:  # by the actor, before the first step
            lengths, self._may_be_staggered = torch.split(self.episode_length, self._sizes), False
        for simulator, part, length in zip(self._simulators, actions, lengths, strict=True):
            simulator.send(("step", {"action": part, "episode_length": length}))
        answers = [simulator.receive() for simulator in self._simulators]
        self.simulated_s += max(answer["simulated_s"] for answer in answers)

        self.obs, final_obs = _joined_by_name(answers, "obs", "final_obs")
        reward, *own_reward = _joined([answer["reward"] for answer in answers], dim=1)
        terminated, truncated, bad, valid, *own_end = _joined([answer["flags"] for answer in answers], dim=1)
        ended = terminated | truncated
        self.episode_length += 1
        self.episode_length.masked_fill_(ended, 0)
        info = {"final_obs": self._whole(final_obs, ended), "bad": bad, "valid": valid}
        if own_reward:
            info |= {"own_reward": own_reward[0], "own_end": own_end[0]}
        return self.obs, reward, terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        """See `Task.state_dict`; the states of all simulators."""
        states = enumerate(self._request_all("save"))
        return {name: tensor.cpu() for i, state in states for name, tensor in prefixed(f"{i}", state).items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state_dict`."""
        for number, simulator in enumerate(self._simulators):
            simulator.send(("load", with_prefix(f"{number}", state)))
        self._begin([simulator.receive() for simulator in self._simulators])

    def close(self) -> None:
        """End the simulators. May be called twice."""
        for simulator in self._simulators:
            with suppress(PeerDiedError):  # which the launcher reports
                simulator.send((CLOSE, None))
        self._simulators = ()

    def _begin(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Go on from the observations and the episode lengths in the answers of the simulators."""
        self.obs, self.episode_length = _joined_by_name(answers, "obs", "episode_length")
        self._may_be_staggered = not self.counts_by_itself

    def _whole(self, rows: Tensor, ended: Tensor) -> Tensor:
        """Last observations `[N, O]` of all environments, given `rows` for those that ended."""
        if not len(rows):
            return self.obs
        whole = self.obs.clone()
        whole[ended] = rows
        return whole

    def _request_all(self, action: str) -> list[Any]:
        for simulator in self._simulators:
            simulator.send((action, None))
        return [simulator.receive() for simulator in self._simulators]


class RemoteTerms(RewardTerms):
    """Terms of rewards that are summed on the simulators.

    Args:
        names: Of the terms.
        simulators: The GMIs that sum them.
        device: Of the sums.
    """

    def __init__(self, names: Iterable[str], simulators: Sequence[Peer], device: torch.device) -> None:
        super().__init__(names, device)
        self._simulators = simulators

    def pop_sums(self) -> Tensor:
        """See `RewardTerms.pop_sums`."""
        sums: Tensor = sum((simulator.request("terms") for simulator in self._simulators), torch.zeros_like(self._sums))
        return sums


def _joined_by_name(answers: Sequence[Mapping[str, Any]], *names: str) -> list[Tensor]:
    return [_joined([answer[name] for answer in answers]) for name in names]


def _joined(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors of all simulators concatenated; that of a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat([*parts], dim)
