import pytest

from gmi_drl.config.learners import LEARNERS, LearnerEntry, PPOConfig, RslRlConfig, entries
from gmi_drl.config.run_config import RunConfig, apply_settings, default_config, load_config, ppo_of
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.main import load_role
from gmi_drl.roles.probes.probe import Probe
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
DEFAULT_STEPS = {"ppo": (16, 4, 4, 1e-3), "a3c": (8, 1, 16, 4e-4), "rsl_rl": (16, 4, 4, 1e-3)}
"""Horizon, epochs, mini-batches and learning rate of each kind that learns from rollouts."""


@pytest.mark.parametrize("kind", LEARNERS.names)
def test_every_kind_is_written_and_read(tmp_path, kind):
    config = default_config(ANT, kind)
    (tmp_path / "config.yaml").write_text(dump_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config
    assert type(config.learner) is LEARNERS.find(kind).model and config.learner.kind == kind


@pytest.mark.parametrize("kind", DEFAULT_STEPS)
def test_every_kind_without_replay_keeps_the_contract(kind):
    learner = default_config(ANT, kind).learner
    assert (learner.kind, learner.reward_scale) == (kind, ANT.reward_scale)
    steps = learner.horizon, learner.epochs, learner.minibatches, learner.learning_rate
    assert steps == DEFAULT_STEPS[kind]
    assert learner.hidden == ANT.hidden and learner.bucket_bytes(ANT) == ANT.bucket_bytes()
    assert learner.check(ANT, ["policy"]) == learner.check(ANT, None) == []
    assert 0 < learner.bucket_bytes(ANT) <= learner.memory_bytes(ANT, 1) < learner.memory_bytes(ANT, 2)


@pytest.mark.parametrize("kind", LEARNERS.names)
def test_roles_and_probes_are_where_entries_say(kind):
    entry = LEARNERS.find(kind)
    if entry.obstacle():
        pytest.skip(entry.obstacle())
    assert entry.role or entry.trainer, "nobody would train"
    for role in filter(None, (entry.role, entry.trainer)):
        assert issubclass(load_role(role), DRL_role)
    assert entry.probe is None or issubclass(load_role(entry.probe), Probe)


@pytest.mark.parametrize(
    "more",
    [
        {"obs_groups": {"actor": ["policy"], "critic": ["policy", "critic"]}},
        {"critic": {"class_name": "RNNModel"}},
        {"critic": {"class_name": "CNNModel", "hidden_dims": [8], "cnn_cfg": {"kernel_size": 3}}},
    ],
)
def test_what_rsl_rl_keeps_of_other_groups_and_networks_is_not_reckoned(more):
    runner = RslRlConfig.for_task(ANT).runner
    assert RslRlConfig(runner=runner | more).memory_bytes(ANT, 8) is None
    assert RslRlConfig(runner=runner | {"obs_groups": {}}).memory_bytes(ANT, 8) > 0


def test_memory_grows_with_networks_rollouts_and_mini_batches():
    def taken(num_env=100, **settings):
        return PPOConfig(**settings).memory_bytes(ANT, num_env)

    learner = 6 * PPOConfig(hidden=(8,)).bucket_bytes(ANT)
    samples = 4 * 16 * 2 * (60 + 2 * 8) + 4 * 16 * 3 * 2 * 8 // 2
    assert taken(hidden=(8,), minibatches=2) == learner + 100 * samples
    assert taken(hidden=(8,), horizon=32) > taken(hidden=(8,)) > taken(hidden=(8,), minibatches=8)


def test_groups_that_the_worlds_lack_are_a_mistake_of_rsl_rls_networks():
    learner = RslRlConfig.for_task(ANT)
    learner = learner.model_copy(update={"runner": learner.runner | {"obs_groups": {"critic": ["camera"]}}})
    (mistake,) = learner.check(ANT, ["policy"])
    assert "no group camera, only policy" in mistake
    assert learner.check(ANT, ["policy", "camera"]) == learner.check(ANT, None) == []


def test_the_wider_of_rsl_rls_networks_is_reckoned_with():
    theirs = RslRlConfig.for_task(ANT)
    wider = theirs.model_copy(update={"runner": theirs.runner | {"critic": {"hidden_dims": [512]}}})
    assert wider.hidden == (512,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learner.gama=1", "learner.gama: unknown key; did you mean 'gamma'"),
        ("learner.gamma=2", r"learner.gamma: .*less than or equal to 1 \(got 2\)"),
        ("learner.kind=ppa", "learner: there is no learner 'ppa'; did you mean 'ppo'"),
        ("learner.kind=3", "kind must be text, not 3"),
        ("learner=3", "learner: "),
        ("ppo.gamma=0.9", "ppo: of version 1, today `learner: {kind: ppo, ...}`"),
        ("rsl_rl.seed=1", "rsl_rl: of version 1, today `learner: {kind: rsl_rl, runner"),
        ("version=1", "version: this gmi-drl reads 2, not 1"),
    ],
)
def test_mistakes_are_told_with_their_place(setting, message):
    with pytest.raises(UsageError, match=message):
        apply_settings(RunConfig(), [setting])


def test_what_is_for_our_ppo_is_refused_for_others():
    assert ppo_of(RunConfig()) == PPOConfig()
    with pytest.raises(UsageError, match=r"for learner\.kind ppo, the run has rsl_rl"):
        ppo_of(default_config(ANT, "rsl_rl"))


def test_a_package_that_is_missing_or_old_is_told_with_the_remedy(monkeypatch):
    entry = LearnerEntry("sac", "", "", "", needs=(("no-such-package", "1.2"),), remedy="pip install it")
    assert entry.obstacle() == "--algo sac needs no-such-package: pip install it"
    monkeypatch.setattr(entries, "version", lambda package: "1.1.9")
    assert entry.obstacle() == "--algo sac needs no-such-package 1.2, not 1.1.9: pip install it"
    for enough in ("1.2", "1.10.0", "2.0.0rc1"):
        monkeypatch.setattr(entries, "version", lambda package, found=enough: found)
        assert entry.obstacle() is None
