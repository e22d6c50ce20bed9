"""What all trainers must know alike, once per update, in one exchange."""

import time
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

VERSION, PREDICTIONS, SIM_S, ACT_S = (FACTS.index(name) for name in ("version", "predictions", SIMULATE.name, ACT.name))
ADDED_UP = 5
"""Transitions, predictions, lags, and rollouts: those taken, and those dropped so far."""


class Agreement:
    """Exchanges what each trainer has taken; tells rates of the time between two exchanges.

    Args:
        group: The trainers.

    Attributes:
        agents_s: Seconds that a rollout of the last exchange was simulated and acted for, in the mean of this GMI's.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.agents_s: dict[str, float] = {SIMULATE.name: 0.0, ACT.name: 0.0}
        self._last_s = time.monotonic()
        self._predictions = 0.0

    def agree(self, word: Word, batch: ExperienceBatch, version: int, dropped: int) -> News:
        """Exchange. Waits for the device, once.

        Args:
            word: What this GMI would say; only rank 0's counts.
            batch: What it has taken.
            version: Of the policy that learns from it.
            dropped: Rollouts that never came, so far.

        Raises:
            GmiError: if no transition of any trainer is valid.
        """
        sums, facts, delta = batch.sums.sum(0), batch.facts.cpu(), reduce(merge_moments, batch.delta)
        lags = version - facts[:, VERSION]
        predictions = float(facts[:, PREDICTIONS].sum())
        counts = [batch.reward.numel(), predictions, float(lags.sum()), len(facts), dropped]
        added_up = torch.tensor(counts, dtype=torch.float64)
        said = torch.tensor([float(word), float(lags.max())], dtype=torch.float64)
        seen = torch.cat((sums, batch.valid.sum(dtype=torch.float64)[None], delta)).cpu()
        table = self.group.gather(torch.cat((said, added_up, seen)))
        self.agents_s = {SIMULATE.name: float(facts[:, SIM_S].mean()), ACT.name: float(facts[:, ACT_S].mean())}
        return self._news(table, len(sums))

    def _news(self, table: Tensor, num_sums: int) -> News:
        words, most_lag, added_up, of_sums, valid, deltas = torch.split(
            table, [1, 1, ADDED_UP, num_sums, 1, table.shape[1] - 3 - ADDED_UP - num_sums], dim=1
        )
        if not valid.sum() > 0:
            raise GmiError("every world of every GMI went wrong in all steps of a batch: task or policy are broken")
        samples, predictions, lags, rollouts, dropped = added_up.sum(0).tolist()
        reward_sum, episodes, return_sum, length_sum, bad_worlds, *terms = of_sums.sum(0).tolist()
        now_s = time.monotonic()
        since_s, self._last_s = now_s - self._last_s, now_s
        self._predictions += predictions
        told = {
            "predictions": self._predictions,
            "predictions_per_second": predictions / since_s,
            "training_samples_per_second": samples / since_s,
            "lag_mean": lags / rollouts,
            "lag_max": most_lag.max().item(),
            "dropped_rollouts": dropped,
        }
        word = Word(int(words[0, 0]))
        return News(
            word, reward_sum, episodes, return_sum, length_sum, bad_worlds, tuple(terms), 0.0, 1.0, deltas, told
        )
