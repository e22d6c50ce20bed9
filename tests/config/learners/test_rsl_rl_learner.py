import pytest
import torch
from torch import nn

from gmi_drl.algo.networks import make_policy
from gmi_drl.config.learners.rsl_rl import ppo_arguments, runner_config
from gmi_drl.config.run_config import default_config
from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.tasks.rsl_rl_env import RslRlEnv


def test_its_networks_and_settings_are_ours():
    from rsl_rl.runners import OnPolicyRunner

    env = RslRlEnv(make("ant", num_env=2))
    ppo = default_config(env.task.spec).learner.model_copy(update={"gamma": 0.5, "init_std": 0.4, "activation": "tanh"})
    runner = OnPolicyRunner(env, runner_config(ppo), device="cpu")
    ours = make_policy(env.task.spec, ppo)
    for theirs, mine in ((runner.alg.actor.mlp, ours.actor), (runner.alg.critic.mlp, ours.critic)):
        assert [p.shape for p in theirs.parameters()] == [p.shape for p in mine.parameters()]
        assert all(isinstance(layer, type(other)) for other, layer in zip(theirs, mine, strict=True))
        assert nn.Tanh in map(type, mine)
    torch.testing.assert_close(runner.alg.actor.distribution.log_std_param, ours.log_std)
    assert runner.alg.actor.obs_normalization and runner.alg.critic.obs_normalization
    assert all(getattr(runner.alg, name, value) == value for name, value in ppo_arguments(ppo).items())
    assert runner.alg.gamma == 0.5 and runner.alg.use_clipped_value_loss
