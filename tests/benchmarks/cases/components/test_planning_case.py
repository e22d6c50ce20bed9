import pytest

from gmi_drl.benchmarks.cases.components import planning
from gmi_drl.errors import GmiError
from gmi_drl.files import parse
from gmi_drl.hardware.node import Node


def test_a_plan_and_its_command_are_timed_against_a_limit():
    with planning.CASE.open(True) as sides:
        ours, limit = (side() for side in sides.values())
    assert list(sides) == ["plan 10,000 GPUs", "limit"] and planning.CASE.lower_is_better
    assert ours.value > 0 and limit.value == 1.0
    assert set(ours.details) == {"command_s", "unlike_10000_s", "unlike_1000_s", "cluster_8000_s"}
    assert min(ours.details.values()) > 0


def test_a_plan_of_workers_for_the_cluster_of_srl_is_timed():
    assert planning.WORKERS_CASE.obstacle() is None
    with planning.WORKERS_CASE.open(True) as sides:
        ours, limit = (side() for side in sides.values())
    assert 0 < ours.value <= 1.5 * ours.details["command_s"] and limit.value == 2.0


def test_a_plan_of_workers_with_too_few_is_no_measurement(monkeypatch):
    monkeypatch.setattr(planning, "ACTORS", 11_999)
    with planning.WORKERS_CASE.open(True) as sides, pytest.raises(GmiError, match=r"12000 actors and 32 trainers, but"):
        sides["plan workers"]()


def test_a_command_that_fails_is_no_measurement(tmp_path):
    with pytest.raises(GmiError, match=r"exited with code 2: .*no such file"):
        planning.command(tmp_path, "alike", 8)


def test_unlike_gpus_are_of_four_models_in_turn():
    node = parse(Node, planning.nodes()["unlike-1000"], "node")
    assert node.num_gpus == 1000 and len({part.model for part in node.gpu_models}) == 4
    assert all(part.known_memory_gib for part in node.gpu_models)
