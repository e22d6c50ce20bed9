import dataclasses
import re

import pytest
import yaml

from gmi_drl.config.learners.rsl_rl_file import read_rsl_rl_config, unknown_groups
from gmi_drl.config.run_config import RunConfig, apply_settings, load_config
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml, parse

WIDTHS = (32, 16)
GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 0.5}
AGENT = {
    "seed": 42,
    "device": "cuda:0",
    "num_steps_per_env": 24,
    "max_iterations": 1000,
    "save_interval": 50,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {"class_name": "MLPModel", "hidden_dims": WIDTHS, "distribution_cfg": GAUSSIAN},
    "critic": {"class_name": "MLPModel", "hidden_dims": WIDTHS},
    "algorithm": {"class_name": "PPO", "num_mini_batches": 8, "learning_rate": 3e-4, "desired_kl": None},
    "policy": dataclasses.MISSING,
}
"""As Isaac Lab and mjlab dump it: with tuples, and values that are MISSING."""


def read(tmp_path, **changed):
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.dump(AGENT | changed))
    runner, settings = read_rsl_rl_config(path)
    return parse(RunConfig, {**settings, "learner": {"kind": "rsl_rl", "runner": runner}}, str(path))


def test_a_dumped_configuration_becomes_that_of_a_run(tmp_path):
    config = read(tmp_path)
    assert (config.seed, config.iterations, config.checkpoint_every) == (42, 1000, 50)
    learner = config.learner
    assert (learner.horizon, learner.epochs, learner.minibatches, learner.learning_rate) == (24, 5, 8, 3e-4)
    assert learner.hidden == WIDTHS and learner.runner["actor"]["hidden_dims"] == [32, 16]
    assert "policy" not in config.learner.runner and config.learner.runner["device"] == "cuda:0"


def test_a_run_of_before_is_read_without_the_settings_of_a_run_that_its_runner_names(tmp_path):
    config, path = read(tmp_path), tmp_path / "config.yaml"
    data = config.model_dump(mode="json", exclude_none=True)
    data["learner"]["runner"] |= {"max_iterations": 7, "seed": 7, "save_interval": 7}
    path.write_text(yaml.dump(data))
    assert load_config(path) == config
    with pytest.raises(UsageError, match=f"^{path}: learner.runner.max_iterations is iterations of the run"):
        parse(RunConfig, data, str(path))


def test_what_isaac_lab_leaves_missing_is_left_out_however_it_is_dumped(tmp_path):
    missing = {"policy": {}, "obs_groups": {}, "max_iterations": {}, "algorithm": {"rnd_cfg": {}, "gamma": 0.9}}
    config = read(tmp_path, **missing, seed=None)
    runner = config.learner.runner
    assert "policy" not in runner and runner["algorithm"] == {"gamma": 0.9}
    assert (config.seed, config.iterations) == (RunConfig().seed, RunConfig().iterations)


def test_functions_are_their_names_and_nothing_is_imported(tmp_path):
    (tmp_path / "agent.yaml").write_text("algorithm: {function: !!python/name:no_package.of_mine.mirrored ''}")
    section = read_rsl_rl_config(tmp_path / "agent.yaml")[0]
    assert section == {"algorithm": {"function": "no_package.of_mine.mirrored"}}


def test_nested_runner_section_is_flattened(tmp_path):
    nested = {"algorithm": {"gamma": 0.9}, "runner": {"seed": 5, "num_steps_per_env": 24}}
    (tmp_path / "agent.yaml").write_text(yaml.dump(nested))
    expected = {"algorithm": {"gamma": 0.9}, "num_steps_per_env": 24}, {"seed": 5}
    assert read_rsl_rl_config(tmp_path / "agent.yaml") == expected


def test_without_groups_of_observations_rsl_rl_chooses_them(tmp_path):
    assert read(tmp_path, obs_groups=dataclasses.MISSING).learner.runner["obs_groups"] == {}


def test_it_is_kept_in_the_run_folder_to_the_last_null(tmp_path):
    config = read(tmp_path)
    (tmp_path / "config.yaml").write_text(dump_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config and config.learner.runner["algorithm"]["desired_kl"] is None


def test_its_values_are_set_like_all_others(tmp_path):
    config = apply_settings(read(tmp_path), ["learner.runner.algorithm.learning_rate=1e-4", "iterations=3"])
    assert config.learner.learning_rate == 1e-4 and config.iterations == 3


def test_numbers_with_an_exponent_are_numbers_and_aliases_are_followed(tmp_path):
    text = yaml.dump(AGENT).replace("0.0003", "3e-4")
    assert "&id001" in text  # both networks have the same tuple
    (tmp_path / "agent.yaml").write_text(text)
    section = read_rsl_rl_config(tmp_path / "agent.yaml")[0]
    assert section["algorithm"]["learning_rate"] == 3e-4
    assert section["critic"]["hidden_dims"] == section["actor"]["hidden_dims"] == [32, 16]


def bomb(levels, link="", per_level=8):
    """Each level stands for the one below, several times; `link` is what holds them."""
    name = link and f"{link}: "
    lines = ["a0: &a0 {x: 1}"]
    for i in range(1, levels):
        held = f"[{', '.join([f'*a{i - 1}'] * per_level)}]"
        lines.append(f"a{i}: &a{i} " + (f"{{{name}{held}}}" if name else held))
    return "\n".join(lines)


@pytest.mark.parametrize("levels", [7, 60])
@pytest.mark.parametrize("link", ["", "b", "<<"])
def test_aliases_that_stand_for_very_much_are_refused_before_they_are_followed(tmp_path, levels, link):
    (tmp_path / "agent.yaml").write_text(bomb(levels, link))
    with pytest.raises(UsageError, match=r"line \d+: more than 100000 values when its aliases are written out"):
        read_rsl_rl_config(tmp_path / "agent.yaml")


def test_aliases_that_stand_for_little_and_merge_keys_are_followed(tmp_path):
    (tmp_path / "agent.yaml").write_text("a: &a {x: [1, 2]}\nb: [*a, *a]\nc: {<<: *a, y: 3}")
    section = read_rsl_rl_config(tmp_path / "agent.yaml")[0]
    assert section["b"] == [{"x": [1, 2]}] * 2 and section["c"] == {"x": [1, 2], "y": 3}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"num_steps_per_env": 0, "actor": {"x": 1}},
            r"2 mistakes(.|\n)*num_steps_per_env(.|\n)*actor.class_name: missing",
        ),
        ({"class_name": "DistillationRunner"}, "DistillationRunner cannot be run, only PPO by rsl_rl's OnPolicyRunner"),
        ({"policy": {"class_name": "ActorCritic"}}, "which `actor` and `critic` replace"),
        ({"seed": -1}, "seed"),
        ({"algorithm": {"num_mini_batches": 0}}, "algorithm.num_mini_batches"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, changed, message):
    with pytest.raises(UsageError, match=message):
        read(tmp_path, **changed)


@pytest.mark.parametrize("text", ["!!python/name:os.system", "[1]", "a: &a [*a]", "a: b: c", "3"])
def test_files_of_another_kind_are_refused(tmp_path, text):
    (tmp_path / "agent.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"agent\.yaml"):
        read_rsl_rl_config(tmp_path / "agent.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        read_rsl_rl_config(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("library", "text"),
    [
        ("skrl", "{seed: 42, models: {separate: no}, agent: {class: PPO, rollouts: 16}, trainer: {timesteps: 4800}}"),
        ("rl_games", "{params: {seed: 42, algo: {name: a2c_continuous}, config: {horizon_length: 16}}}"),
        ("Stable-Baselines3", "{seed: 42, n_timesteps: !!float 1e6, policy: MlpPolicy, n_steps: 16}"),
        ("Stable-Baselines3", "{policy: MlpPolicy, train_freq: 1}"),
    ],
)
def test_whose_file_it_is_is_told(tmp_path, library, text):
    (tmp_path / "agent.yaml").write_text(text)
    with pytest.raises(
        UsageError, match=f"agent.yaml is a configuration of {library}, not of rsl_rl: .*rsl_rl/train.py"
    ):
        read_rsl_rl_config(tmp_path / "agent.yaml")


def test_groups_that_a_task_lacks_are_named_with_a_remedy():
    section = {"obs_groups": {"actor": ["policy"], "critic": ["policy", "critic"]}}
    assert unknown_groups(section, ["policy", "critic", "camera"]) == []
    (mistake,) = unknown_groups(section, ["policy"])
    assert re.search(r"no group critic, only policy: .*critic: \[policy\]}'", mistake)
