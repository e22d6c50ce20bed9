"""What all trainers must know alike, once per update, in one exchange."""

import time
from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor

from gmi_drl.algo.experience import ExperienceBatch
from gmi_drl.algo.normaliser import merge_moments
from gmi_drl.comm.group import Group
from gmi_drl.errors import GmiError
from gmi_drl.experience import FACTS
from gmi_drl.phases import ACT, SIMULATE
from gmi_drl.roles.agreement import News, Word

AGENTS_S = (SIMULATE.name, ACT.name, "wait_s", "fetch_s")
"""Seconds that agents tell of each rollout."""


class Agreement:
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
        self._causes = [f"GMI {gmi_id} ended" for gmi_id in agents]
        self._dropped = torch.zeros(len(agents), dtype=torch.float64)
        self._last_s = time.monotonic()

    def agree(
        self, word: Word, batch: ExperienceBatch, version: int, dropped: Mapping[str, int], publish_s: float = 0.0
    ) -> News:
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
        so_far = torch.tensor([float(dropped.get(cause, 0)) for cause in self._causes], dtype=torch.float64)
        new, self._dropped = so_far - self._dropped, so_far
        said = torch.tensor([float(word), float(lags.max()), publish_s], dtype=torch.float64)
        counts = torch.tensor([batch.reward.numel(), len(facts), float(lags.sum())], dtype=torch.float64)
        seen = torch.cat((batch.valid.sum(dtype=torch.float64)[None], sums, delta)).cpu()
        table = self.group.gather(torch.cat((said, counts, new, seen)))
        sizes = [said.numel(), len(counts), len(new), 1, len(sums), len(delta)]
        return self._news(*torch.split(table, sizes, dim=1))

    def _news(self, said: Tensor, counts: Tensor, new: Tensor, valid: Tensor, sums: Tensor, deltas: Tensor) -> News:
        """Of all trainers, `[trainers, ...]` each."""
        if not valid.sum() > 0:
            raise GmiError("every world of every GMI went wrong in all steps of a batch: task or policy are broken")
        samples, rollouts, lags = counts.sum(0).tolist()
        now_s = time.monotonic()
        since_s, self._last_s = now_s - self._last_s, now_s
        told = {
            "predictions_per_second": (samples + samples / rollouts * float(new.sum())) / since_s,
            "training_samples_per_second": samples / since_s,
            "lag_mean": lags / rollouts,
            "lag_max": said[:, 1].max().item(),
            "dropped": {cause: count for cause, count in zip(self._causes, new.sum(0).tolist(), strict=True) if count},
            "wait_s": self.agents_s["wait_s"],
            "fetch_s": self.agents_s["fetch_s"],
            "publish_s": said[:, 2].max().item(),
        }
        reward_sum, episodes, return_sum, length_sum, bad_worlds, *terms = sums.sum(0).tolist()
        word = Word(int(said[0, 0]))
        return News(
            word, reward_sum, episodes, return_sum, length_sum, bad_worlds, tuple(terms), 0.0, 1.0, deltas, told
        )
