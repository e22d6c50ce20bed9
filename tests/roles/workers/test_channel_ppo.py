"""A trainer of workers takes rollouts that other versions of the policy played."""

import pytest
import torch

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.experience import FACTS
from gmi_drl.roles.workers.trainer import ChannelPPO
from gmi_drl.workload import TASK_SPECS

ANT, CPU, R, N, T = TASK_SPECS["ant"], torch.device("cpu"), 2, 3, 4


@pytest.mark.parametrize("memory", [{}, {"memory": "gru", "memory_size": 8, "sequence": 2}], ids=["plain", "memory"])
def test_only_rollouts_of_older_versions_are_judged_anew(memory):
    config = PPOConfig(hidden=(8,), horizon=T, minibatches=1, **memory)
    learner = ChannelPPO(ANT, RunConfig(learner=config), NoReduction(), device=CPU, seed=1)
    batch = ExperienceBatch.empty(config.rollout_form(ANT, N), R, CPU)
    draw = torch.Generator().manual_seed(0)
    for name in ("obs", "action", "log_prob"):
        getattr(batch, name).normal_(generator=draw)
    batch.valid.fill_(1)
    batch.facts[:, FACTS.index("version")] = torch.tensor([4.0, 3.0])
    learner.take(batch, 4)
    rollout = learner._rollout
    assert torch.equal(rollout.log_prob[:, :N], batch.log_prob[0]) and (rollout.importance[:, :N] == 1).all()
    own = learner.agent.policy.log_prob(rollout.action, rollout.params).detach()
    torch.testing.assert_close(rollout.log_prob[:, N:], own[:, N:])
    assert (rollout.importance[:, N:] != 1).all()
    learner.take(batch, 3)
    assert (learner._rollout.importance == 1).all(), "nothing is older"
