from gmi_drl.bench import peers
from gmi_drl.bench.case import CURVES
from gmi_drl.bench.cases import returns_v5
from gmi_drl.bench.peers import Update


def test_both_sides_have_the_same_batches():
    ppo = returns_v5.our_config().ppo
    assert ppo.horizon * returns_v5.NUM_ENV == returns_v5.SAMPLES
    assert ppo.horizon * returns_v5.NUM_ENV // ppo.minibatches == 64 and ppo.epochs == 10


def test_the_peers_updates_become_curves(monkeypatch):
    asked = {}

    def train(peer, **more):
        asked.update(peer=peer, **more)
        return [Update(2048, 1.0, None, 0), Update(4096, 2.0, -10.0, 8), Update(6144, 3.0, 20.0, 8)]

    monkeypatch.setattr(peers, "train", train)
    sample = returns_v5.train_theirs("HalfCheetah-v5", 6000, seed=4)
    assert sample.value == 20.0 and sample.details["seed"] == 4
    assert list(sample.details[CURVES].values()) == [[4096, 6144], [2.0, 3.0], [-10.0, 20.0]]
    assert asked["driver"] == "returns_sb3"
    assert asked["more"] == ["--env-id", "HalfCheetah-v5", "--env-steps", "6000", "--seed", "4"]


def test_without_its_environment_the_case_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "REPOSITORY", tmp_path)
    assert all("checkout" in case.obstacle() for case in returns_v5.CASES)
