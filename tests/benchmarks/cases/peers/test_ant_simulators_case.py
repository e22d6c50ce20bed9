import pytest

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.peers import ant_simulators
from gmi_drl.benchmarks.cases.peers.ant_simulators import CASES, DRIVER, PEER, step_gymnasium, step_task
from gmi_drl.tasks import make


def test_a_task_and_gymnasium_are_stepped():
    ours, theirs = step_task(make("mujoco:Ant-v5", num_env=4), 0.01), step_gymnasium("sync", 2, 0.01)
    assert ours.value > 0 and theirs.value > 0 and theirs.details == {"num_env": 2, "mode": "sync"}


def test_each_peer_is_measured_at_its_best():
    tried = []

    def side(speed, seconds):
        tried.append((speed, seconds))
        return Sample(speed)

    best = ant_simulators._fastest([lambda s: side(1.0, s), lambda s: side(5.0, s), lambda s: side(3.0, s)], 7.0)
    assert best().value == 5.0 and tried[-1] == (5.0, 7.0) and len(tried) == 4


def test_a_missing_virtual_environment_of_envpool_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "REPOSITORY", tmp_path)
    assert all("checkout" in case.obstacle() for case in CASES)


@pytest.mark.skipif(peers.obstacle(PEER, DRIVER) is not None, reason="needs the environment of envpool")
def test_envpool_is_stepped():
    assert ant_simulators.step_envpool(4, 0.5).value > 0
