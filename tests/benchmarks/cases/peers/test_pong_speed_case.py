import json
from dataclasses import replace

import pytest

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.peers import pong_speed
from gmi_drl.benchmarks.cases.peers.pong_speed import (
    CASES,
    MINI_BATCH,
    NUM_ENVS,
    PEERS,
    SAMPLES,
    SETTINGS,
    Setting,
    fastest,
    our_config,
    our_layout,
)
from gmi_drl.benchmarks.peers import REPOSITORY, Update
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import categorical, image

NATURE = 1_687_719
"""Weights of the network of Mnih et al. for Pong's six actions, with a value."""


@pytest.mark.parametrize("num_env", NUM_ENVS)
@pytest.mark.parametrize("gmis", [1, 2])
def test_ours_trains_with_what_the_peers_train_with(num_env, gmis):
    layout, ppo = our_layout(num_env, gmis, cores=2), our_config(num_env, 4).learner
    assert ppo.horizon * layout.num_env == SAMPLES == ppo.minibatches * MINI_BATCH
    assert [gmi.torch_threads for gmi in layout.gmis] == [2 // gmis] * gmis
    assert (ppo.conv, ppo.features) == (SETTINGS["conv"], SETTINGS["features"])


def test_ours_has_the_weights_of_the_published_network():
    spec = replace(TASK_SPECS["ant"], observation=image(4, 84, 84), action=categorical(6), hidden=())
    assert spec.num_weights(our_config(8, 4).learner.network) == NATURE


@pytest.mark.parametrize("peer", PEERS)
def test_every_peer_has_a_driver_and_pinned_requirements(peer):
    folder = REPOSITORY / "benchmarks" / "peers"
    assert (folder / f"{PEERS[peer]}.py").is_file() and (folder / "requirements" / f"{peer}.txt").is_file()


def test_a_sweep_changes_one_number_after_the_other():
    speeds = {(8, 1, 1): 10.0, (16, 1, 1): 30.0, (16, 1, 2): 40.0, (16, 2, 2): 20.0}
    choices = {"num_env": (8, 16), "runners": (1, 2), "threads": (1, 2)}
    best, told = fastest(Setting(8), choices, lambda of: speeds[of.num_env, of.threads, of.runners])
    assert best == Setting(16, threads=1, runners=2) and sorted(told.values()) == sorted(speeds.values())


def test_a_peer_is_trained_by_the_settings_and_its_weights_are_told(monkeypatch):
    given = []

    def train(peer, *, num_env, threads, seconds, driver, more):
        given.append((peer, num_env, threads, driver, json.loads(more[1])))
        return [Update(1024 * n, 10.0 * n, None, weights=NATURE) for n in range(1, 5)]

    monkeypatch.setattr(peers, "train", train)
    side = pong_speed._peer_side("rllib", 1, quick=True)
    sample = side()
    assert isinstance(sample, Sample) and sample.value == pytest.approx(102.4) and sample.details["weights"] == NATURE
    ((peer, num_env, threads, driver, settings),) = given
    assert (peer, num_env, threads, driver) == ("rllib", 8, 1, "atari_rllib")
    assert (settings["epochs"], settings["horizon"], settings["runners"]) == (1, 128, 1)


def test_precisions_and_cuts_have_no_peers():
    assert [case.name for case in CASES if not case.is_baseline_first] == ["pong_speed", "pong_speed_1_epoch"]


@pytest.mark.parametrize("can", [True, False])
def test_bfloat16_is_an_obstacle_where_the_cores_would_emulate_it(monkeypatch, can):
    monkeypatch.setattr(requirements, "has_bf16", lambda: can)
    monkeypatch.setattr(pong_speed, "_obstacle", lambda: None)
    obstacles = {case.name: case.obstacle() for case in CASES}
    missing = obstacles.pop("pong_bf16")
    assert missing is None if can else "AVX512-BF16 or AMX" in missing
    assert "pong_speed" in obstacles and "AVX512-BF16" not in str(obstacles)
