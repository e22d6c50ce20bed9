from pathlib import Path

import pytest

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.peers import off_policy
from gmi_drl.benchmarks.peers import Update

SETTINGS = Path(peers.__file__).parents[2] / "benchmarks" / "peers" / "off_policy_settings.py"


def zoo():
    """The peers' settings, out of their source, which imports a library that is not installed here."""
    text = SETTINGS.read_text().partition("ZOO: dict[str, Any] = ")[2].partition("\n}")[0] + "\n}"
    return eval(text, {})


def test_both_sides_have_the_same_settings_of_dqn():
    duel, theirs = off_policy.DUELS["dqn_cartpole"], zoo()
    config = duel.config(50_000, seed=3)
    ours, replay = config.learner, config.learner.replay
    assert (ours.learning_rate, ours.batch, ours.gamma) == (theirs["learning_rate"], theirs["batch_size"], 0.99)
    assert (replay.size, replay.min_size, list(ours.hidden)) == (100_000, 1000, theirs["policy_kwargs"]["net_arch"])
    assert ours.updates / (ours.horizon * off_policy.NUM_ENV) == theirs["gradient_steps"] / theirs["train_freq"]
    assert ours.epsilon_steps == theirs["exploration_fraction"] * 50_000
    assert ours.epsilon_end == theirs["exploration_final_eps"] and config.seed == 3


def test_sac_has_an_update_for_each_step():
    config = off_policy.DUELS["sac_half_cheetah"].config(300_000, seed=1)
    assert config.learner.updates == config.learner.horizon * off_policy.NUM_ENV
    assert config.iterations * config.learner.updates == pytest.approx(300_000, rel=0.01)


def test_seconds_of_ours_are_from_row_to_row_as_those_of_peers_are():
    rows = [{"env_steps": 100, "steps_per_second": 50.0}, {"env_steps": 300, "steps_per_second": 100.0}]
    assert off_policy.seconds_of(rows) == 4.0


@pytest.mark.parametrize("side", off_policy.DRIVERS)
def test_a_peers_training_is_a_speed_and_a_return(side, monkeypatch):
    early = [Update(400 * at, 1.0, 500.0 * (at == 1), 10) for at in range(1, 6)]
    updates = [*early, Update(4000, 8.0, None), Update(4000, 8.0, 125.0, 10)]
    monkeypatch.setattr(peers, "train", lambda peer, driver, **more: {off_policy.DRIVERS[side]: updates}[peer, driver])
    sample = off_policy.train_theirs(off_policy.DUELS["dqn_cartpole"], 4000, 2, side)
    curve = sample.details.pop(CURVES)
    assert sample.value == 500 and curve["return"] == [500.0, 0.0, 0.0, 0.0, 0.0, 125.0]
    returns = {"return": 125.0, "late_return": 25.0, "best_return": 500.0}
    assert sample.details == {"seed": 2, "training_s": 8.0, **returns}, "the last five"


NO_TORCHRL = peers.obstacle(*off_policy.DRIVERS["torchrl"])


@pytest.mark.skipif(NO_TORCHRL is not None, reason=str(NO_TORCHRL))
@pytest.mark.parametrize(("duel", "weights"), [("dqn_cartpole", 67_586), ("sac_half_cheetah", 217_870)])
def test_torchrl_does_all_steps_with_networks_as_large_as_the_others(duel, weights):
    algo, (peer, driver) = off_policy.DUELS[duel].algo, off_policy.DRIVERS["torchrl"]
    more = ["--algo", algo, "--env-steps", "512", "--learning-starts", "256"]
    updates = peers.train(peer, num_env=1, threads=1, seconds=60.0, driver=driver, more=more)
    assert updates[-1].env_steps == 512 and updates[-1].weights == weights and updates[-1].episodes == 10
