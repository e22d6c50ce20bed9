"""One update of asynchronous training end to end: a trainer takes experience, learns, and gives its policy back.

take      R rollouts of agents on other GMIs, in the order of their leases            comm/channels
          a learner from replay copies them into its ring: their slots are free again roles/replay/channel_learner.py
exchange  one gather between the trainers: sums, deltas and rank 0's decision         roles/decoupled/update_stats.py
learn     mini-batches: gradient -> sum over the trainers -> Adam                     algo/a3c.py, algo/ppo.py
publish   the new version, then at the latest the slots of the batch are free again   comm/channels
end       after the last update: close the channels                                   comm/channels
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from gmi_drl.comm.channels import TrainerEnd
from gmi_drl.roles.decoupled.channel_learner import ChannelLearner
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats
from gmi_drl.roles.training.replica import LearnerReplica
from gmi_drl.run.phases import ACT, SIMULATE


class ChannelReplica(LearnerReplica):
    """A `Replica` that learns from the experience in channels, together with the other trainers.

    Args:
        learner: The same on all trainers.
        end: This trainer's end of the channels.
        exchange: With the other trainers.
        version: Of the policy at the start.
        last: Version after which the run is over, unless rank 0 stops it before.
        publishes: Whether this trainer publishes parameters for the agents of its channels.
    """

    learner: ChannelLearner[Any]

    def __init__(
        self,
        learner: ChannelLearner[Any],
        end: TrainerEnd,
        exchange: UpdateExchange,
        *,
        version: int,
        last: int,
        publishes: bool,
    ) -> None:
        super().__init__(learner, learner.device)
        self.end, self.group = end, exchange.group
        self._exchange, self._publishes, self._last = exchange, publishes, last
        self._gives_back_first = not learner.keeps_batch and end.max_lag > 0
        self.version, self._published = version, -1
        self._publish_s = 0.0

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """Take, exchange, learn, publish. See `Replica`."""
        self.publish()
        self.clock.start()
        rollouts_s, waited_s = self.end.wait_s, self.end.wait_s + self.group.wait_s
        batch = self.learner.batch_type(**self.end.take().views)
        rollouts_s = self.end.wait_s - rollouts_s
        told = self.learner.take(batch, self.version)
        stats = self._exchange.exchange(
            decide(), batch, self.version, self.end.dropped, self._publish_s, rollouts_s, told
        )
        if self._gives_back_first:
            self.end.give_back(is_learnt=False)
        self.learner.learn(stats)
        self.clock.mark("learn_s")
        self.version += 1
        self.publish()
        if not self._gives_back_first:
            self.end.give_back()
        self.clock.mark("sync_s")
        self.sync_s = self.end.wait_s + self.group.wait_s - waited_s
        return self._end(stats) if stats.decision is Decision.STOP or self.version == self._last else stats

    def phases(self) -> dict[str, float]:
        """Seconds of learning and waiting of this trainer, and of simulating and acting of its agents meanwhile."""
        seconds = self.clock.read()
        learnt_s = seconds["learn_s"] - self.sync_s
        agents_s: dict[str, float] = {name: self._exchange.agents_s[name] for name in (SIMULATE.name, ACT.name)}
        return {**agents_s, "learn_s": learnt_s, "sync_s": self.sync_s + seconds["sync_s"]}

    def local_state(self) -> dict[str, Tensor]:
        """What its learner alone has: a trainer has no environments, and those of agents begin anew."""
        return self.learner.local_state()

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`."""
        self.learner.load_local_state(state)

    def publish(self) -> None:
        """Publish the current version, unless that is done. All trainers have the same, so one of a pool does it."""
        self._exchange.note_published(self.version)
        if self._publishes and self._published != self.version:
            began_s = time.perf_counter()
            self.end.parameters.publish(self.version, self.learner.published)
            self._published, self._publish_s = self.version, time.perf_counter() - began_s

    def _end(self, stats: IterationStats) -> IterationStats:
        """End the experience. Returns the last statistics, with the rollouts under way counted as dropped."""
        self.end.end_experience()
        dropped = Counter(stats.metrics["dropped"]) + Counter(self._exchange.dropped_since(self.end.dropped))
        return replace(stats, metrics={**stats.metrics, "dropped": dict(dropped)})
