"""One update of asynchronous training end to end: a trainer takes experience, learns, and gives its policy back.

take     R rollouts of agents on other GMIs, in the order of their leases            comm/channels
agree    one exchange between the trainers: sums, what was seen, rank 0's word       roles/decoupled/update_stats.py
learn    slices: gradient -> sum over the trainers -> Adam                           algo/a3c.py
publish  the new version, then the places that were learnt from                      comm/channels
end      after the last update: nobody needs what else there is                      comm/channels
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.comm.channels import TrainerEnd
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig, a3c_of
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats
from gmi_drl.run.phases import ACT, SIMULATE
from gmi_drl.workload import TaskSpec


def make_a3c(spec: TaskSpec, config: RunConfig, reduction: Reduction, device: torch.device) -> A3C:
    """The learner that all trainers of a reduction hold alike."""
    agent = make_agent(spec, a3c_of(config), device, seed=config.seed)
    return A3C(
        agent.policy,
        agent.normaliser,
        a3c_of(config),
        sample_share=1 / reduction.group.size,
        reduce=reduction.reduce,
        make_bucket=reduction.bucket,
        cuda_graphs=config.cuda_graphs,
    )


def published_of(a3c: A3C) -> list[Tensor]:
    """What goes back to agents: the parameters, and the normaliser's statistics."""
    return [a3c.flat.vector, a3c.normaliser.statistics]


class A3CReplica:
    """Learns from what comes out of channels, as the other trainers do; see `AnyReplica`.

    Args:
        a3c: As the others have it.
        end: Of the channels, this trainer's.
        agreement: With the other trainers.
        version: Of the policy that it begins with.
        last: Of the one that it ends with, unless it is told to stop before.
        publishes: Whether it gives the agents of these channels their parameters.
    """

    def __init__(
        self, a3c: A3C, end: TrainerEnd, agreement: UpdateExchange, *, version: int, last: int, publishes: bool
    ) -> None:
        self.a3c, self.end, self.group = a3c, end, agreement.group
        self._agreement, self._publishes, self._last = agreement, publishes, last
        self.clock = PhaseClock(a3c.flat.vector.device)
        self.version, self._published = version, -1
        self.sync_s = 0.0
        self._publish_s = 0.0

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """Take, agree, learn, publish. See `AnyReplica`."""
        self.publish()
        self.clock.start()
        waited_s = self.end.wait_s + self.group.wait_s
        batch = ExperienceBatch(**self.end.take().views)
        news = self._agreement.agree(decide(), batch, self.version, self.end.dropped, self._publish_s)
        self.a3c.update(batch)
        self.a3c.normaliser.merge(news.deltas)
        self.clock.mark("learn_s")
        self.version += 1
        self.publish()
        self.end.give_back()
        self.clock.mark("sync_s")
        self.sync_s = self.end.wait_s + self.group.wait_s - waited_s
        return self._ended(news) if news.word is Decision.STOP or self.version == self._last else news

    def phases(self) -> dict[str, float]:
        """Learning and waiting of this trainer; simulating and acting of its agents, which go on meanwhile."""
        told = self.clock.read()
        learnt_s = told["learn_s"] - self.sync_s
        acting: dict[str, float] = {name: self._agreement.agents_s[name] for name in (SIMULATE.name, ACT.name)}
        return {**acting, "learn_s": learnt_s, "sync_s": self.sync_s + told["sync_s"]}

    def metrics(self) -> dict[str, float]:
        """See `AnyReplica`."""
        return self.a3c.metrics()

    def set_learning_rate(self, rate: float) -> None:
        """See `AnyReplica`."""
        self.a3c.learning_rate.fill_(rate)

    def learner_state(self) -> dict[str, Tensor]:
        """See `AnyReplica`."""
        return {**self.a3c.state_dict(), "normaliser": self.a3c.normaliser.statistics}

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """See `AnyReplica`."""
        self.a3c.normaliser.load(state["normaliser"])
        self.a3c.load_state_dict(state)

    def worlds_state(self) -> dict[str, Tensor]:
        """Nothing: a trainer has no worlds, and those of agents begin anew."""
        return {}

    def load_worlds_state(self, state: dict[str, Tensor]) -> None:
        """See `worlds_state`."""

    def _ended(self, news: IterationStats) -> IterationStats:
        """Those of the last update, with the rollouts that were under way, of which nobody learns."""
        self.end.end_experience()
        dropped = Counter(news.told["dropped"]) + Counter(self._agreement.dropped_since(self.end.dropped))
        return replace(news, told={**news.told, "dropped": dict(dropped)})

    def publish(self) -> None:
        """Give agents the newest version, unless they have it; all trainers hold the same, so one of a pool does it."""
        if self._publishes and self._published != self.version:
            began_s = time.perf_counter()
            self.end.parameters.publish(self.version, published_of(self.a3c))
            self._published, self._publish_s = self.version, time.perf_counter() - began_s
