import importlib.util
from types import SimpleNamespace

import pytest
from conftest import two_cores

from gmi_drl.benchmarks.cases.peers import ppo_ant_v5
from gmi_drl.benchmarks.cases.peers.ppo_ant_v5 import (
    ADAPTED,
    CASE,
    NUM_ENVS,
    PEERS,
    TASK,
    fastest,
    our_config,
    our_layout,
    peer_threads,
    session,
)
from gmi_drl.benchmarks.peers import REPOSITORY

PEERS_FOLDER = REPOSITORY / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def theirs():
    spec = importlib.util.spec_from_file_location("settings", PEERS_FOLDER / "settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("num_env", NUM_ENVS)
def test_ours_trains_with_what_the_peers_train_with(theirs, num_env):
    layout, ppo = our_layout(TASK, num_env, cores=2), our_config(num_env).learner
    assert ppo.horizon * layout.num_env == theirs.SAMPLES
    assert theirs.SAMPLES // ppo.minibatches == theirs.MINI_BATCH
    assert (ppo.epochs, ppo.hidden, ppo.learning_rate) == (theirs.EPOCHS, theirs.HIDDEN, theirs.LEARNING_RATE)
    assert (ppo.gamma, ppo.lam, ppo.clip) == (theirs.GAMMA, theirs.LAMBDA, theirs.CLIP)
    assert (ppo.value_loss_coef, ppo.max_grad_norm) == (theirs.VALUE_COEF, theirs.MAX_GRAD_NORM)


@pytest.mark.parametrize("peer", PEERS)
def test_every_peer_has_a_driver_and_pinned_requirements(peer):
    assert (PEERS_FOLDER / f"train_{peer}.py").is_file()
    lines = (PEERS_FOLDER / "requirements" / f"{peer}.txt").read_text().splitlines()
    assert all("==" in line for line in lines if not line.startswith("#"))


def test_the_fastest_setting_is_chosen_and_all_are_returned():
    speeds = {(8, 1): 10.0, (16, 1): 30.0, (32, 1): 25.0, (16, 2): 40.0}
    best, told = fastest([8, 16, 32], [2], speeds.__getitem__)
    assert best == (16, 2) and sorted(told.values()) == [10.0, 25.0, 30.0, 40.0]
    assert fastest([8, 16, 32], [], speeds.__getitem__)[0] == (16, 1)


def test_threads_are_tried_where_a_peer_heeds_them():
    assert peer_threads("sample_factory") == [] and 1 not in peer_threads("sb3")


def test_missing_peers_are_an_obstacle(monkeypatch, tmp_path):
    monkeypatch.setattr(ppo_ant_v5.peers, "REPOSITORY", tmp_path)
    assert "checkout" in CASE.obstacle()


def test_the_environments_of_our_side_are_stepped_alone_in_the_same_run(monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(ppo_ant_v5, "PEERS", ())
    monkeypatch.setattr(ppo_ant_v5, "ADAPTED", ())
    monkeypatch.setattr(ppo_ant_v5, "QUICK_SECONDS", 0.01)
    with ppo_ant_v5.open_sides(quick=True) as sides:
        assert list(sides) == ["gmi-drl", "environments alone"]
        sample = sides["environments alone"]()
    assert sample.value > 0 and sample.details == {"num_env": ppo_ant_v5.QUICK_NUM_ENVS[0]}


def test_the_first_side_trains_in_bfloat16_the_second_in_float32(monkeypatch):
    trained = []

    def train(task, num_env, seconds, bf16):
        trained.append((task, our_config(num_env, bf16).learner.bf16))
        return SimpleNamespace(steps_per_second=1.0, phases={})

    monkeypatch.setattr(ppo_ant_v5, "_train_ours", train)
    with ppo_ant_v5.open_precisions(quick=True) as sides:
        assert list(sides) == ["gmi-drl", "float32", "environments alone"]
        for name in ("gmi-drl", "float32"):
            sides[name]()
    assert trained == [(TASK, True), (TASK, False)]


@two_cores
@pytest.mark.parametrize("task", [TASK, *ADAPTED])
def test_our_sides_train_ant_v5(task):
    pytest.importorskip(task.partition(":")[0])
    with session(task, 1024) as measuring:
        measured = measuring.measure(4, seconds=0.1)
    assert measured.iterations >= 1
    assert measured.steps_per_second > 0
