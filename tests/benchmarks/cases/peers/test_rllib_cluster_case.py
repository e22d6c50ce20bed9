import os

import pytest
from conftest import two_cores

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.peers import rllib_cluster as case
from gmi_drl.benchmarks.peers import Update

pytest.importorskip("ray", reason="needs the extra [ray]")
pytest.importorskip("gymnasium", reason="needs the extra [gymnasium]")


@two_cores
@pytest.mark.parametrize("name", ["rllib_cluster", "rllib_cluster_2"])
def test_our_sides_train_on_ray_and_measure_the_cores(name, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nobody's: a case has a cluster of its own
    monkeypatch.setattr(case, "QUICK_SECONDS", 1.0)
    monkeypatch.setattr(case, "WARM_UP_S", 0.0)
    with find_case(name).open(True) as sides:
        assert list(sides) == [*case.OURS, "RLlib"]
        sample = sides["gmi-drl"]()
    busiest = 1e6 * os.cpu_count() / sample.value
    assert sample.value > 0 and 0 < sample.details["cpu_s_per_million_steps"] < 5 * busiest


def test_rllibs_figures_are_from_the_end_of_the_warm_up_on(monkeypatch):
    updates = [
        Update(env_steps=1000 * (i + 1), wall_s=2.0 * i, return_mean=None, cores_s=cores_s)
        for i, cores_s in enumerate((50, 51, 52, 53))
    ]
    asked = []
    monkeypatch.setattr(peers, "train", lambda *args, more, **rest: asked.append(more) or updates)
    monkeypatch.setattr(peers, "packages", lambda peer: ["ray==2"])
    sample = case.measure_rllib(2, 1.0)
    assert sample.value == pytest.approx(500) and sample.details["cpu_s_per_million_steps"] == pytest.approx(1000)
    assert asked == [("--nodes", "2")]


def test_two_nodes_have_a_gmi_each_and_meet_over_links():
    layout = case.our_layout("mujoco:Ant-v5", 2)
    assert layout.nodes == ("node-0", "node-1") and layout.ranks_by_device("trainers") == [[0], [1]]
    assert layout.num_env == case.NUM_ENV and layout.groups["trainers"].reduction == "HAR"
    assert case.our_layout("mujoco:Ant-v5", 1).ranks_by_device("trainers") == [[0, 1]]
