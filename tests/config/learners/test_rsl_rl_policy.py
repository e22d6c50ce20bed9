import pytest
import yaml

from gmi_drl.config.learners import RslRlConfig
from gmi_drl.config.learners.rsl_rl_file import read_rsl_rl_config
from gmi_drl.config.learners.rsl_rl_policy import of_today, with_two_networks
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml, parse

POLICY = {
    "class_name": "ActorCritic",
    "init_noise_std": 0.8,
    "noise_std_type": "log",
    "actor_obs_normalization": False,
    "critic_obs_normalization": True,
    "actor_hidden_dims": [400, 200],
    "critic_hidden_dims": [64],
    "activation": "relu",
}
AGENT = {
    "num_steps_per_env": 32,
    "obs_groups": {"policy": ["policy"], "critic": ["policy", "critic"]},
    "policy": POLICY,
    "algorithm": {"class_name": "PPO", "num_mini_batches": 8},
}
"""As Isaac Lab 2 dumps it."""


def test_one_policy_becomes_two_networks(tmp_path):
    (tmp_path / "agent.yaml").write_text(yaml.dump(AGENT))
    section = RslRlConfig(runner=read_rsl_rl_config(tmp_path / "agent.yaml")[0]).runner
    network = {"class_name": "MLPModel", "activation": "relu"}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 0.8, "std_type": "log"}
    unnormalised = {"hidden_dims": [400, 200], "obs_normalization": False, "distribution_cfg": gaussian}
    assert section["actor"] == {**network, **unnormalised}
    assert section["critic"] == {**network, "hidden_dims": [64], "obs_normalization": True}
    assert section["obs_groups"] == {"actor": ["policy"], "critic": ["policy", "critic"]} and "policy" not in section
    config = RunConfig(learner=RslRlConfig(runner=section))
    assert parse(RunConfig, yaml.safe_load(dump_yaml(config)), "config.yaml") == config


def test_the_oldest_form_normalises_both_and_names_no_groups():
    oldest = {name: value for name, value in POLICY.items() if "normalization" not in name}
    section = with_two_networks({"policy": oldest, "empirical_normalization": True})
    assert section["actor"]["obs_normalization"] and section["critic"]["obs_normalization"]
    assert section["obs_groups"] == {"actor": ["policy"]} and "empirical_normalization" not in section


def test_what_a_network_says_of_its_own_normalisation_counts():
    section = with_two_networks({"policy": POLICY, "empirical_normalization": True})
    assert not section["actor"]["obs_normalization"] and section["critic"]["obs_normalization"]


def test_what_isaac_lab_leaves_unset_is_left_out():
    unset = {"actor": {}, "critic": {}, "empirical_normalization": {}, "obs_groups": {}}
    policy = {**POLICY, "actor_obs_normalization": {}, "critic_obs_normalization": None}
    section = with_two_networks({**AGENT, **unset, "policy": policy})
    assert section["actor"]["hidden_dims"] == [400, 200] and not section["critic"]["obs_normalization"]


def test_a_critic_that_would_see_less_than_the_policy_is_refused():
    with pytest.raises(UsageError, match="which groups of observations `critic` sees"):
        with_two_networks(AGENT | {"obs_groups": {"policy": ["policy", "height"]}})


def test_a_memory_is_kept():
    policy = {**POLICY, "class_name": "ActorCriticRecurrent", "rnn_type": "gru", "rnn_hidden_dim": 32}
    critic = with_two_networks({"policy": policy})["critic"]
    assert critic["class_name"] == "RNNModel" and (critic["rnn_type"], critic["rnn_hidden_dim"]) == ("gru", 32)


def test_a_memory_in_its_oldest_name_is_kept():
    policy = {**POLICY, "class_name": "ActorCriticRecurrent", "rnn_hidden_size": 16}
    assert with_two_networks({"policy": policy})["actor"]["rnn_hidden_dim"] == 16


def test_a_deviation_by_state_is_kept():
    section = with_two_networks({"policy": {**POLICY, "state_dependent_std": True}})
    assert section["actor"]["distribution_cfg"]["class_name"] == "HeteroscedasticGaussianDistribution"


def test_a_newer_form_stays_as_it_is():
    section = {"actor": {}, "policy": None}
    assert with_two_networks(section) is section


NETWORK = {"class_name": "MLPModel", "hidden_dims": [8]}


@pytest.mark.parametrize(
    ("unset", "left"),
    [
        ({"cnn_cfg": None, "distribution_cfg": None}, {}),
        ({"rnn_type": None, "rnn_hidden_dim": 256, "rnn_num_layers": 1}, {}),
        ({"rnn_type": "gru", "rnn_hidden_dim": 256}, {"rnn_type": "gru", "rnn_hidden_dim": 256}),
        ({"noise_std_type": "scalar", "state_dependent_std": False}, {}),
        ({"stochastic": False, "init_noise_std": 0.0}, {}),
        ({"latent_dim": None}, {"latent_dim": None}),  # of somebody's own class, which may know what it means
    ],
)
def test_what_networks_would_not_take_is_left_out(unset, left):
    assert of_today(NETWORK | unset) == NETWORK | left


def test_noise_of_version_4_is_a_distribution():
    gaussian = {"class_name": "GaussianDistribution", "init_std": 0.5, "std_type": "log"}
    noise = {"stochastic": True, "init_noise_std": 0.5, "noise_std_type": "log"}
    assert of_today(NETWORK | noise) == NETWORK | {"distribution_cfg": gaussian}
    by_state = of_today(NETWORK | noise | {"state_dependent_std": True})["distribution_cfg"]
    assert by_state == gaussian | {"class_name": "HeteroscedasticGaussianDistribution"}
    assert of_today(NETWORK | noise | {"distribution_cfg": {"class_name": "Beta"}})["distribution_cfg"] == {
        "class_name": "Beta"
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"policy": {"class_name": "StudentTeacher"}}, "class_name: StudentTeacher cannot be trained"),
        ({"policy": {"actor_hidden_dim": [3]}}, "actor_hidden_dims"),
        ({"policy": 3}, "learner.runner.policy"),
        ({"critic": {"class_name": "MLPModel"}}, "which `actor` and `critic` replace"),
    ],
)
def test_what_it_cannot_be_is_refused(changed, message):
    with pytest.raises(UsageError, match=message):
        with_two_networks(AGENT | changed)


def test_rsl_rl_makes_these_networks():
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.roles.rsl_rl.group import GroupRunner
    from gmi_drl.tasks import make
    from gmi_drl.tasks.rsl_rl_env import RslRlEnv

    for more in ({}, {"class_name": "ActorCriticRecurrent", "rnn_hidden_dim": 8}, {"state_dependent_std": True}):
        agent = {**AGENT, "obs_groups": {key: ["policy"] for key in ("policy", "critic")}, "policy": POLICY | more}
        env = RslRlEnv(make("ant", num_env=2))
        runner = GroupRunner(env, with_two_networks(agent), reduction=NoReduction(), sample_share=1.0, log_dir=None)
        assert runner.alg.critic.obs_normalization and not runner.alg.actor.obs_normalization
