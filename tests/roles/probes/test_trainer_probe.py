import torch

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import make_agent
from gmi_drl.config.learners import A3CConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.probes.trainer_probe import random_experience
from gmi_drl.workload import TASK_SPECS

SPEC = TASK_SPECS["humanoid"]


def test_random_experience_is_like_experience():
    """Or products of gradients would be of subnormal numbers, and an update take longer than it does."""
    config = A3CConfig.for_task(SPEC)
    agent = make_agent(SPEC, config, torch.device("cpu"), seed=0)
    batch = random_experience(RolloutForm(2, 32, SPEC.observation, SPEC.action), agent)
    assert batch.obs.shape == (1, 2, 32, SPEC.observation.size)
    a3c = A3C(agent.policy, agent.normaliser, config.model_copy(update={"minibatches": 1}))
    a3c.update(batch)
    gradient = a3c.flat.gradient
    assert a3c.metrics()["kl"] < 1e-6 and a3c.metrics()["rho"] > 0.99
    assert not ((gradient != 0) & (gradient.abs() < torch.finfo(torch.float32).tiny)).any()
