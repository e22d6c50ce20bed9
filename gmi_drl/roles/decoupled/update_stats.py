"""What all trainers must know alike, once per update, in one exchange."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.normaliser import merge_moments
from gmi_drl.comm.channels.trainer_end import ENDED, death_of
from gmi_drl.comm.group import Group
from gmi_drl.errors import GmiError
from gmi_drl.layout.experience import FACTS
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats
from gmi_drl.run.phases import ACT, SIMULATE

AGENTS_S = (SIMULATE.name, ACT.name, "wait_s", "fetch_s")
"""Seconds that agents tell of each rollout."""


class TrainerReport(NamedTuple):
    """What a trainer tells of one update, as numbers of a row of the exchange.

    Attributes:
        word: What it would say.
        lag_max: Of its rollouts, in versions.
        publish_s: Seconds that publishing the policy took.
        samples: Transitions that it has taken.
        rollouts: And rollouts.
        lags: Of all of these.
    """

    word: float
    lag_max: float
    publish_s: float
    samples: float
    rollouts: float
    lags: float


@dataclass
class DropCounter:
    """Why rollouts of a trainer never came, and how many of those others were told of."""

    text: str
    told: int = 0

    def news(self, dropped: Mapping[str, int]) -> int:
        """How many more there are by now, once."""
        before, self.told = self.told, dropped.get(self.text, 0)
        return self.told - before


class UpdateExchange:
    """Exchanges what each trainer has taken; tells rates of the time between two exchanges.

    Args:
        group: The trainers.
        agents: Ids of the GMIs that act, for all trainers the same ones.

    Attributes:
        agents_s: Means over the rollouts that this GMI took last, by `AGENTS_S`.
    """

    def __init__(self, group: Group, agents: Sequence[int]) -> None:
        self.group = group
        self.agents_s = dict.fromkeys(AGENTS_S, 0.0)
        self._causes = [DropCounter(text) for text in (*map(death_of, agents), ENDED)]
        self._last_s = time.monotonic()

    def agree(
        self, word: Decision, batch: ExperienceBatch, version: int, dropped: Mapping[str, int], publish_s: float = 0.0
    ) -> IterationStats:
        """Exchange. Waits for the device, once.

        Args:
            word: What this GMI would say; only rank 0's counts.
            batch: What it has taken.
            version: Of the policy that learns from it.
            dropped: Rollouts that never came, so far, by cause (`TrainerEnd.dropped`).
            publish_s: Seconds that it took to publish that policy; 0 where another one did it.

        Raises:
            GmiError: if no transition of any trainer is valid.
        """
        sums, facts, delta = batch.sums.sum(0), batch.facts.cpu(), reduce(merge_moments, batch.delta)
        lags = version - facts[:, FACTS.index("version")]
        self.agents_s = {name: float(facts[:, FACTS.index(name)].mean()) for name in AGENTS_S}
        said = TrainerReport(
            float(word), float(lags.max()), publish_s, batch.reward.numel(), len(facts), float(lags.sum())
        )
        own = torch.tensor([*said, *self._new(dropped)], dtype=torch.float64)
        seen = torch.cat((batch.valid.sum(dtype=torch.float64)[None], sums, delta)).cpu()
        table = self.group.gather(torch.cat((own, seen)))
        sizes = [len(said), len(self._causes), 1, len(sums), len(delta)]
        all_said, new, valid, all_sums, deltas = torch.split(table, sizes, dim=1)
        if not valid.sum() > 0:
            raise GmiError("every world of every GMI went wrong in all steps of a batch: task or policy are broken")
        return self._news(
            [TrainerReport(*row) for row in all_said.tolist()], self._by_cause(new), all_sums.sum(0), deltas
        )

    def dropped_since(self, dropped: Mapping[str, int]) -> dict[str, int]:
        """What all trainers have dropped since they agreed last, by cause: another exchange, for the end."""
        return self._by_cause(self.group.gather(torch.tensor(self._new(dropped), dtype=torch.float64)))

    def _new(self, dropped: Mapping[str, int]) -> list[int]:
        return [cause.news(dropped) for cause in self._causes]

    def _by_cause(self, new: Tensor) -> dict[str, int]:
        """Of all trainers, `[trainers, causes]`; without those of which there is none."""
        counts = new.sum(0).tolist()
        return {cause.text: int(count) for cause, count in zip(self._causes, counts, strict=True) if count}

    def _news(
        self, said: Sequence[TrainerReport], dropped: dict[str, int], sums: Tensor, deltas: Tensor
    ) -> IterationStats:
        """What follows from what all trainers said, by rank."""
        samples = sum(one.samples for one in said)
        rollouts = sum(one.rollouts for one in said)
        now_s = time.monotonic()
        since_s, self._last_s = now_s - self._last_s, now_s
        told = {
            "predictions_per_second": (samples + samples / rollouts * sum(dropped.values())) / since_s,
            "training_samples_per_second": samples / since_s,
            "lag_mean": sum(one.lags for one in said) / rollouts,
            "lag_max": max(one.lag_max for one in said),
            "dropped": dropped,
            "wait_s": self.agents_s["wait_s"],
            "fetch_s": self.agents_s["fetch_s"],
            "publish_s": max(one.publish_s for one in said),
        }
        reward_sum, episodes, return_sum, length_sum, bad_worlds, *terms = sums.tolist()
        word = Decision(int(said[0].word))
        return IterationStats(
            word, reward_sum, episodes, return_sum, length_sum, bad_worlds, tuple(terms), 0.0, 1.0, deltas, told
        )
