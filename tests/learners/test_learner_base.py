import pytest

from gmi_drl.config import RunConfig, apply_settings, default_config, load_config, ppo_of
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.learners import LEARNERS, LearnerEntry, PPOConfig, RslRlConfig, base
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


@pytest.mark.parametrize("kind", LEARNERS.names)
def test_every_kind_keeps_the_contract(tmp_path, kind):
    config = default_config(ANT, kind)
    learner = config.learner
    assert (learner.kind, learner.reward_scale, learner.horizon) == (kind, ANT.reward_scale, 16)
    assert (learner.epochs, learner.minibatches, learner.learning_rate) == (4, 4, 1e-3)
    assert learner.hidden == ANT.hidden and learner.bucket_bytes(ANT) == ANT.bucket_bytes()
    (tmp_path / "config.yaml").write_text(dump_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config
    assert type(learner) is LEARNERS.find(kind).model


def test_networks_tell_whether_a_run_can_go_on():
    ours, theirs = PPOConfig(), RslRlConfig.for_task(ANT)
    assert ours.networks == PPOConfig(gamma=0.5).networks != PPOConfig(activation="tanh").networks
    wider = theirs.model_copy(update={"runner": theirs.runner | {"critic": {"hidden_dims": [512]}}})
    assert wider.networks != theirs.networks and wider.hidden == (512,)


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
    monkeypatch.setattr(base, "version", lambda package: "1.1.9")
    assert entry.obstacle() == "--algo sac needs no-such-package 1.2, not 1.1.9: pip install it"
    for enough in ("1.2", "1.10.0", "2.0.0rc1"):
        monkeypatch.setattr(base, "version", lambda package, found=enough: found)
        assert entry.obstacle() is None
