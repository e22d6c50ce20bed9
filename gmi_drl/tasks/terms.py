"""What tasks sum for a row of metrics: the terms that a reward is the sum of, or the returns of agents by kind."""

import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

Terms = dict[str, Tensor]
"""The terms of a step's reward by name, float32 `[N]` each; they add up to the reward."""


WORLDS = "worlds"
"""The name of the first sum of a task of several agents: how many worlds have ended. Their returns follow it."""


class RewardTerms:
    """Sums of K reward terms over environments and steps.

    Args:
        names: Names of the terms.
        device: The device of the sums.
    """

    def __init__(self, names: Iterable[str], device: torch.device) -> None:
        self.names = tuple(names)
        self._sums = torch.zeros(len(self.names), dtype=torch.float64, device=device)

    def add(self, terms: Terms, left_out: Tensor) -> None:
        """Add the terms of a step, except where the mask `left_out` `[N]` is True. Does not wait for the device."""
        self._sums += torch.stack([*terms.values()]).masked_fill_(left_out, 0.0).sum(1, dtype=torch.float64)

    def pop_sums(self) -> Tensor:
        """Return the sums since the last call, float64 `[K]`, and set them to zero."""
        sums = self._sums.clone()
        self._sums.zero_()
        return sums

    def row(self, sums: Sequence[float], count: int) -> dict[str, dict[str, float]]:
        """What a row of metrics has of the `sums` `[K]` over `count` transitions.

        `reward_terms` has the mean of each term; `world_returns` the means over the worlds that have ended, if any has.
        """
        if self.names[0] == WORLDS:
            count = int(sums[0])
            return {"world_returns": self._means(sums, count)} if count else {}
        return {"reward_terms": self._means(sums, count)}

    def _means(self, sums: Sequence[float], count: int) -> dict[str, float]:
        return {name: total / count for name, total in zip(self.names, sums, strict=True) if name != WORLDS}


class WorldReturns(RewardTerms):
    """Sums of returns over worlds that have ended: of all agents together, and of an agent of each kind.

    Agents whose names differ by their numbers alone are of one kind. If all are, a world's sum is told alone.

    Args:
        agents: Names of the K agents of a world.
        device: The device of the sums.
    """

    def __init__(self, agents: Sequence[str], device: torch.device) -> None:
        kinds = [re.sub(r"_?\d+$", "", name) or name for name in agents]
        distinct = list(dict.fromkeys(kinds))
        self._kinds = distinct if len(distinct) > 1 else []
        super().__init__((WORLDS, "world", *self._kinds), device)
        members = torch.tensor([[float(kind == own) for own in kinds] for kind in self._kinds]).view(-1, len(agents))
        self._weights = torch.cat((torch.ones(1, len(agents)), members / members.sum(1, keepdim=True)))

    def add_worlds(self, returns: Tensor) -> None:
        """Add the returns `[W, K]`, on the host, of the agents of W worlds that have ended."""
        sums = (self._weights.double() @ returns.double().T).sum(1)
        self._sums += torch.cat((torch.tensor([float(len(returns))]).double(), sums)).to(self._sums.device)


def terms_of(task: object) -> RewardTerms | None:
    """The reward terms of a task, or None if it does not sum them."""
    terms = getattr(task, "reward_terms", None)
    return terms if isinstance(terms, RewardTerms) else None


def replaced(terms: Mapping[str, Tensor], where: Tensor, name: str, value: float) -> Terms:
    """The terms with another one added: it alone counts, with `value`, where the mask `where` `[N]` is True."""
    others = {other: term.masked_fill(where, 0.0) for other, term in terms.items()}
    return {**others, name: where * value}
