import pytest

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.peers import returns_v5
from gmi_drl.benchmarks.peers import Update


def test_both_sides_have_the_same_batches():
    ppo = returns_v5.our_config().learner
    assert ppo.horizon * returns_v5.NUM_ENV == returns_v5.SAMPLES
    assert ppo.horizon * returns_v5.NUM_ENV // ppo.minibatches == 64 and ppo.epochs == 10


def test_the_peers_updates_become_curves(monkeypatch):
    asked = {}

    def train(peer, **more):
        asked.update(peer=peer, **more)
        return [
            Update(5000, 1.0, None, 0),
            Update(9500, 2.0, -10.0, 8),  # nine tenths of 10556 steps, not of 10500
            Update(10200, 3.0, 20.0, 2),
            Update(10500, 4.0, 0.0, 6),
            Update(10600, 5.0, None, 0),
        ]

    monkeypatch.setattr(peers, "train", train)
    sample = returns_v5.train_theirs("HalfCheetah-v5", 6000, seed=4)
    assert sample.value == 2 * 20.0 / 8 and sample.details["seed"] == 4
    assert list(sample.details[CURVES].values()) == [[9500, 10200, 10500], [2.0, 3.0, 4.0], [-10.0, 20.0, 0.0]]
    assert asked["driver"] == "returns_sb3"
    assert asked["more"] == ["--env-id", "HalfCheetah-v5", "--env-steps", "6000", "--seed", "4"]


def test_a_missing_virtual_environment_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "REPOSITORY", tmp_path)
    assert all("checkout" in case.obstacle() for case in returns_v5.CASES)


@pytest.mark.skipif(peers.obstacle("sb3", "returns_sb3") is not None, reason=str(peers.obstacle("sb3", "returns_sb3")))
def test_the_peer_prints_the_episodes_of_every_update():
    more = ["--env-id", "Pendulum-v1", "--env-steps", "6144"]  # whose episodes have 200 steps
    updates = peers.train("sb3", num_env=8, threads=1, seconds=60.0, driver="returns_sb3", more=more)
    assert [(update.env_steps, update.episodes) for update in updates] == [(2048, 8), (4096, 8), (6144, 8)]
