"""The one exchange of an update: what all trainers must know alike."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import ReplayBatch, RolloutBatch
from gmi_drl.algo.normaliser import merge_moments
from gmi_drl.comm.channels.trainer_end import ENDED, death_of
from gmi_drl.comm.group import Group
from gmi_drl.errors import GmiError
from gmi_drl.layout.experience import ANSWERS, FACTS, SERVED
from gmi_drl.roles.training.iteration_stats import NOTHING, Decision, IterationStats

AGENTS_S = tuple(name for name in FACTS if name != "version")
"""Numbers that an agent reports with each rollout, most of them seconds."""

_KEPT = 100
"""Versions before the oldest of a batch whose times are kept: the rollouts of one agent may be older than another's."""


class TrainerReport(NamedTuple):
    """A trainer's numbers of one update, at the beginning of its row of the exchange.

    Attributes:
        decision: Its `Decision`.
        lag_max: Greatest lag of its rollouts, in versions.
        publish_s: Seconds that publishing the policy took.
        samples: Number of its transitions.
        rollouts: Number of its rollouts.
        lags: Sum of the lags of its rollouts.
        ages_s: Sum of the seconds since the versions of its rollouts were published.
        waited_s: Seconds that it waited for rollouts.
    """

    decision: float
    lag_max: float
    publish_s: float
    samples: float
    rollouts: float
    lags: float
    ages_s: float
    waited_s: float


@dataclass
class DropCounter:
    """Counts the rollouts that a trainer never got, for one cause."""

    cause: str
    reported: int = 0

    def increase(self, dropped: Mapping[str, int]) -> int:
        """How many more there are since the last call, if `dropped` are the counts so far, by cause."""
        before, self.reported = self.reported, dropped.get(self.cause, 0)
        return self.reported - before


class UpdateExchange:
    """Exchanges the statistics of each trainer's batch. Rates are over the time between two exchanges.

    Args:
        group: The trainers.
        agents: Ids of the GMIs that act, the same for all trainers.
        frames: Of a control step.

    Attributes:
        agents_s: Means over the rollouts of this trainer's last batch, by `AGENTS_S`.
    """

    def __init__(self, group: Group, agents: Sequence[int], frames: int = 1) -> None:
        self.group, self._frames = group, frames
        self._published_s: dict[int, float] = {}  # when each version was the newest first
        self.agents_s = dict.fromkeys(AGENTS_S, 0.0)
        self._counters = [DropCounter(cause) for cause in (*map(death_of, agents), ENDED)]
        self._last_s = time.monotonic()

    def exchange(
        self,
        decision: Decision,
        batch: RolloutBatch,
        version: int,
        dropped: Mapping[str, int],
        publish_s: float = 0.0,
        waited_s: float = 0.0,
        told: Tensor = NOTHING,
    ) -> IterationStats:
        """Exchange. Waits for the device, once.

        Args:
            decision: Of this trainer; only rank 0's counts.
            batch: That this trainer learns from.
            version: Of the policy that learns from it.
            dropped: Rollouts that this trainer never got, since the run began, by cause (`TrainerEnd.dropped`).
            publish_s: Seconds that it took to publish that policy; 0 where another trainer did it.
            waited_s: Seconds that this trainer waited for the batch.
            told: What the learner tells those of the other trainers, float64 `[K]`.

        Raises:
            GmiError: if no transition of any trainer is valid. A ring has others, and tells if it has none.
        """
        sums, facts, delta = batch.sums.sum(0), batch.facts.cpu(), reduce(merge_moments, batch.delta)
        lags = version - facts[:, FACTS.index("version")]
        self.agents_s = {name: float(facts[:, FACTS.index(name)].mean()) for name in AGENTS_S}
        ages_s = self._ages_s(facts[:, FACTS.index("version")].tolist())
        samples, rollouts = batch.reward.numel(), len(facts)
        report = TrainerReport(
            float(decision), float(lags.max()), publish_s, samples, rollouts, float(lags.sum()), ages_s, waited_s
        )
        on_host = torch.tensor([*report, *self._increases(dropped)], dtype=torch.float64)
        on_device = torch.cat((batch.valid.sum(dtype=torch.float64)[None], sums, delta, told.to(delta.device))).cpu()
        table = self.group.gather(torch.cat((on_host, on_device)))
        lengths = [len(report), len(self._counters), 1, len(sums), len(delta), len(told)]
        reports, drops, valid, all_sums, deltas, of_learners = torch.split(table, lengths, dim=1)
        if not valid.sum() > 0 and not isinstance(batch, ReplayBatch):
            raise GmiError(
                "every environment of every GMI went wrong in all steps of a batch: the task or the policy is broken"
            )
        metrics = self._metrics([TrainerReport(*row) for row in reports.tolist()], self._by_cause(drops))
        return IterationStats.from_sums(
            reports[0, 0].item(), all_sums.sum(0), deltas, metrics=metrics, told=of_learners
        )

    def note_published(self, version: int) -> None:
        """Note that a version is the newest from now on."""
        self._published_s.setdefault(version, time.monotonic())

    def dropped_since(self, dropped: Mapping[str, int]) -> dict[str, int]:
        """Rollouts that all trainers have dropped since the last exchange, by cause. One more exchange, for the end."""
        return self._by_cause(self.group.gather(torch.tensor(self._increases(dropped), dtype=torch.float64)))

    def _ages_s(self, versions: Sequence[float]) -> float:
        """Sum of the ages of the versions of rollouts. Forgets older ones: no later rollout is by these."""
        now_s, oldest = time.monotonic(), min(versions)
        ages_s = sum(now_s - self._published_s.get(int(version), now_s) for version in versions)
        self._published_s = {version: at_s for version, at_s in self._published_s.items() if version >= oldest - _KEPT}
        return ages_s

    def _increases(self, dropped: Mapping[str, int]) -> list[int]:
        return [counter.increase(dropped) for counter in self._counters]

    def _by_cause(self, drops: Tensor) -> dict[str, int]:
        """Sums over all trainers of `drops [trainers, causes]`, without zeros."""
        counts = drops.sum(0).tolist()
        return {counter.cause: int(count) for counter, count in zip(self._counters, counts, strict=True) if count}

    def _metrics(self, reports: Sequence[TrainerReport], dropped: dict[str, int]) -> dict[str, Any]:
        """Entries of the row of metrics that only asynchronous training has."""
        samples = sum(report.samples for report in reports)
        rollouts = sum(report.rollouts for report in reports)
        now_s = time.monotonic()
        since_s, self._last_s = now_s - self._last_s, now_s
        return {
            "predictions_per_second": (samples + samples / rollouts * sum(dropped.values())) / since_s,
            "training_samples_per_second": samples / since_s,
            "training_frames_per_second": samples * self._frames / since_s,
            "lag_mean": sum(report.lags for report in reports) / rollouts,
            "lag_max": max(report.lag_max for report in reports),
            "version_age_s": sum(report.ages_s for report in reports) / rollouts,
            "dropped": dropped,
            "rollouts_wait_s": sum(report.waited_s for report in reports) / len(reports),
            "wait_s": self.agents_s["wait_s"],
            "fetch_s": self.agents_s["fetch_s"],
            "publish_s": max(report.publish_s for report in reports),
            **{name: self.agents_s[name] for name in (*ANSWERS, *SERVED) if self.agents_s["rows"]},
        }
