"""Worlds that are simulated on other GMIs: what an agent on a GMI of its own acts in."""

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
from gmi_drl.workload import TaskSpec


class RemoteTask:
    """A `Task` whose worlds are those of several simulators side by side. Every step is a message there and one back.

    `final_obs` is what the simulators tell where an episode ended, elsewhere `obs`: else twice as much would cross.

    Args:
        simulators: Who have the worlds; they are waited for until they have loaded.
        device: Of this GMI.

    Attributes:
        simulated_s: What the slowest simulator of each step took for it, since somebody has set this to 0; all else
            that steps take is what borders cost.
    """

    obs: Tensor
    episode_length: Tensor
    _may_be_staggered: bool

    def __init__(self, simulators: Sequence[Peer], device: torch.device) -> None:
        self._simulators, self.device = tuple(simulators), device
        greetings = [simulator.receive(LOADING_S) for simulator in simulators]
        first = greetings[0]
        self.spec = TaskSpec(**first["spec"])
        self.counts_by_itself: bool = first["counts_by_itself"]
        self.reward_terms = RemoteTerms(first["terms"], self._simulators, device) if first["terms"] else None
        self._sizes = [len(greeting["obs"]) for greeting in greetings]
        self.num_env = sum(self._sizes)
        self.simulated_s = 0.0
        self._begin(greetings)

    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._begin(self._ask_all("reset"))
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`."""
        actions = torch.split(checked_action(action, self), self._sizes)
        lengths: Iterable[Tensor | None] = [None] * len(self._sizes)
        if self._may_be_staggered:  # by who acts, before the first step
            lengths, self._may_be_staggered = torch.split(self.episode_length, self._sizes), False
        for simulator, part, length in zip(self._simulators, actions, lengths, strict=True):
            simulator.send(("step", {"action": part, "episode_length": length}))
        told = [simulator.receive() for simulator in self._simulators]
        self.simulated_s += max(one["simulated_s"] for one in told)

        self.obs, reward, final_obs = (_joined([one[name] for one in told]) for name in ("obs", "reward", "final_obs"))
        terminated, truncated, bad, valid = _joined([one["flags"] for one in told], dim=1)
        ended = terminated | truncated
        self.episode_length += 1
        self.episode_length.masked_fill_(ended, 0)
        info = {"final_obs": self._whole(final_obs, ended), "bad": bad, "valid": valid}
        return self.obs, reward, terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        """See `Task.state_dict`: those of all simulators."""
        states = enumerate(self._ask_all("save"))
        return {name: tensor.cpu() for i, state in states for name, tensor in prefixed(f"{i}", state).items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state_dict`."""
        for number, simulator in enumerate(self._simulators):
            simulator.send(("load", with_prefix(f"{number}", state)))
        self._begin([simulator.receive() for simulator in self._simulators])

    def close(self) -> None:
        """Let the simulators go. Closing twice is fine."""
        for simulator in self._simulators:
            with suppress(PeerDiedError):  # which its launcher tells
                simulator.send((CLOSE, None))
        self._simulators = ()

    def _begin(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Go on from the observations and the episodes that the simulators tell of."""
        self.obs, self.episode_length = (_joined([one[name] for one in told]) for name in ("obs", "episode_length"))
        self._may_be_staggered = not self.counts_by_itself

    def _whole(self, rows: Tensor, ended: Tensor) -> Tensor:
        """Last observations `[N, O]` of all worlds, from those of the worlds that ended."""
        if not len(rows):
            return self.obs
        whole = self.obs.clone()
        whole[ended] = rows
        return whole

    def _ask_all(self, deed: str) -> list[Any]:
        for simulator in self._simulators:
            simulator.send((deed, None))
        return [simulator.receive() for simulator in self._simulators]


class RemoteTerms(RewardTerms):
    """Terms of rewards that simulators sum.

    Args:
        names: Of the terms.
        simulators: Who sum them.
        device: Where the sums shall be.
    """

    def __init__(self, names: Iterable[str], simulators: Sequence[Peer], device: torch.device) -> None:
        super().__init__(names, device)
        self._simulators = simulators

    def pop_sums(self) -> Tensor:
        """See `RewardTerms.pop_sums`."""
        sums: Tensor = sum((simulator.request("terms") for simulator in self._simulators), torch.zeros_like(self._sums))
        return sums


def _joined(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The worlds of all simulators side by side; those of one alone are not copied."""
    return parts[0] if len(parts) == 1 else torch.cat([*parts], dim)
