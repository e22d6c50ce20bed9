from dataclasses import replace

import pytest
import torch

from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Observation, Part, continuous

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.tasks.rsl_rl_env import RslRlEnv

N, SCALE = 16, 0.05


def make_env():
    return RslRlEnv(make("ant", num_env=N, seed=3), SCALE)


def test_the_contract_of_a_vec_env():
    from rsl_rl.env import VecEnv

    env = make_env()
    assert all(hasattr(env, name) for name in VecEnv.__annotations__)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (N, 8, 1000)
    before = env.get_observations()["policy"].clone()
    obs, reward, done, extras = env.step(torch.zeros(N, 8))
    assert obs["policy"].shape == (N, 60) and not torch.equal(obs["policy"], before)
    assert reward.shape == done.shape == extras["time_outs"].shape == (N,)


def test_a_task_that_writes_its_observations_in_place_does_not_change_what_was_given():
    env = make_env()
    given = env.get_observations()["policy"]
    env.task.obs.zero_()
    assert given.any()


def test_what_a_simulator_sends_to_rsl_rls_logger_is_passed_on():
    env = make_env()
    assert "log" not in env.step(torch.zeros(N, 8))[3]
    env.task.log = {"Episode_Reward/alive": 0.5}
    assert env.step(torch.zeros(N, 8))[3]["log"] == env.task.log


def test_other_groups_of_a_task_stand_beside_policy():
    env = make_env()
    env.task.groups = {"critic": torch.ones(N, 3), "policy": torch.zeros(N, 1)}
    obs = env.get_observations()
    assert obs["critic"].shape == (N, 3) and torch.equal(obs["policy"], env.task.obs)


def test_actions_are_clipped_where_that_is_asked_for():
    env, task = RslRlEnv(make("ant", num_env=N, seed=3), clip_actions=0.5), make("ant", num_env=N, seed=3)
    _, reward, _, _ = env.step(torch.full((N, 8), 0.9))
    assert torch.equal(reward, task.step(torch.full((N, 8), 0.5))[1])


def test_rewards_are_scaled_and_time_outs_differ_from_falls():
    env, task = make_env(), make("ant", num_env=N, seed=3)
    env.episode_length_buf = torch.full((N,), 990)
    task.episode_length.fill_(990)
    action = torch.rand(N, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    for _ in range(10):
        _, reward, done, extras = env.step(action)
        _, expected, terminated, truncated, _ = task.step(action)
        torch.testing.assert_close(reward, SCALE * expected)
        assert torch.equal(done, terminated | truncated) and torch.equal(extras["time_outs"], truncated)
    assert extras["time_outs"].any()


def test_bad_environments_end_without_a_time_out():
    env = make_env()
    action = torch.zeros(N, 8)
    action[2] = torch.nan
    _, reward, done, extras = env.step(action)
    assert done[2] and extras["bad"][2] and not extras["time_outs"][2] and reward[2] == 0


def test_rsl_rls_own_runner_trains_a_wrapped_task():
    from rsl_rl.runners import OnPolicyRunner

    network = {"class_name": "MLPModel", "hidden_dims": [8]}
    config = {
        "num_steps_per_env": 4,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": network,
        "algorithm": {"class_name": "PPO"},
    }
    runner = OnPolicyRunner(make_env(), config)
    before = [parameter.clone() for parameter in runner.alg.actor.parameters()]
    runner.learn(1, init_at_random_ep_len=True)
    assert not any(map(torch.equal, before, runner.alg.actor.parameters()))


def test_rsl_rls_networks_with_convolutions_and_memories_learn_from_parts():
    """rsl_rl's own runner with its own classes, from vectors and images in one observation."""
    from rsl_rl.runners import OnPolicyRunner

    seen = Observation((Part("joints", (3,)), Part("camera", (2, 12, 12), "image")))
    task = Parts(replace(TASK_SPECS["ant"], observation=seen, action=continuous(2)))
    env = RslRlEnv(task)
    obs = env.get_observations()
    assert {name: obs[name].dtype for name in ("joints", "camera")} == dict.fromkeys(
        ("joints", "camera"), torch.float32
    )
    assert obs["camera"].min() >= 0 and obs["camera"].max() <= 1 and "policy" not in obs
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "log"}
    filters = {"output_channels": [4], "kernel_size": 3, "stride": 2}
    network = {"class_name": "CNNModel", "hidden_dims": [8], "activation": "elu", "cnn_cfg": filters}
    memory = {"class_name": "RNNModel", "hidden_dims": [8], "activation": "elu", "rnn_type": "gru", "rnn_hidden_dim": 8}
    for actor, critic, groups in ((network, network, ["joints", "camera"]), (memory, memory, ["joints"])):
        runner = OnPolicyRunner(
            env,
            {
                "num_steps_per_env": 4,
                "obs_groups": {"actor": groups, "critic": groups},
                "actor": {**actor, "distribution_cfg": gaussian},
                "critic": critic,
                "algorithm": {"class_name": "PPO", "num_mini_batches": 2},
            },
            device="cpu",
        )
        runner.learn(1)


class Parts:
    """Random rows of bytes with several parts."""

    counts_by_itself, device, num_env = False, torch.device("cpu"), 4

    def __init__(self, spec):
        self.spec, self.episode_length = spec, torch.zeros(4, dtype=torch.int64)
        self._see()

    def _see(self):
        camera = torch.randint(0, 256, (4, 2, 12, 12)).to(torch.uint8)
        self.obs = pack({"joints": torch.randn(4, 3), "camera": camera}, self.spec.observation)

    def step(self, action):
        self._see()
        flags = torch.zeros(4, dtype=torch.bool)
        info = {"final_obs": self.obs, "bad": flags, "valid": ~flags}
        return self.obs, torch.ones(4), flags, flags.clone(), info
