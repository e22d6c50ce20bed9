"""What GMIs with rings of unlike size know together, and that weights are of all rings."""

import torch
from roles.replay.line_task import Line

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import DQNConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.replay.exchange import Rings, exchange
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.roles.training.iteration_stats import Decision

CPU = torch.device("cpu")
PRIORITIZED = ReplaySettings(size=400, min_size=1, sampler="prioritized", exponent=1.0, beta=0.5)


def replica_of(num_env):
    learner = DQNConfig(hidden=(8,), stream=8, horizon=5, batch=16, replay=PRIORITIZED)
    task, sizes = Line(num_env), {"num_env": num_env, "group_num_env": 4}
    replica = ReplayReplica(task.spec, RunConfig(learner=learner), NoReduction(), device=CPU, seed=0, **sizes)
    replica.attach_task(task, seed=num_env)
    replica.iterate(lambda: Decision.GO_ON)
    return replica


class Both:
    """A group whose ranks are called one after another."""

    size = 2

    def __init__(self):
        self.rows = []

    def gather(self, values):
        self.rows.append(values)
        return torch.stack(self.rows) if len(self.rows) == 2 else torch.stack((values, values))


def test_shares_are_by_the_weights_of_the_rings():
    replicas = [replica_of(1), replica_of(3)]
    replicas[0].ring.update(torch.arange(4), torch.full((4,), 12.0))
    group = Both()
    shares = []
    for group.rank, one in enumerate(replicas):
        nothing = torch.zeros(0, dtype=torch.float64)
        stats, rings = exchange(group, Decision.GO_ON, one.actor.sums, one.ring, one.learner.largest, 4, nothing)
        shares.append(rings.share)
    masses = [float(one.ring.mass()) for one in replicas]
    assert shares[1] == masses[1] / sum(masses) and rings.windows == 4 + 12 and rings.are_ready
    assert stats.reward_sum == sum(float(one.actor.sums[0]) for one in replicas)


def test_a_step_counts_as_if_all_rings_were_one():
    """The share of a ring times the weight of a step is what a draw from one ring of all would give."""
    replica = replica_of(1)
    replica.learner.largest.zero_()
    batch = replica.ring.sample(4)
    weights = replica.learner._weights(batch, Rings(True, 0.25, 16.0, 1.0))
    whole = (16.0 * batch.probabilities * 0.25) ** -0.5
    assert torch.equal(weights, whole.clamp(max=1.0)) and replica.learner.largest == whole.max()
