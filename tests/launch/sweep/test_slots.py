import fcntl
from contextlib import contextmanager

import pytest

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi import claims
from gmi_drl.gmi.claims import claim, claims_folder
from gmi_drl.launch.ray.cluster import RayNode
from gmi_drl.launch.sweep.measure import candidates, soonest
from gmi_drl.launch.sweep.run_sweep import _held
from gmi_drl.launch.sweep.slots import make_slots, slots_on_nodes


@contextmanager
def held_elsewhere(device):
    """The lock as another process holds it."""
    with (claims_folder() / device).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def can_claim(device):
    try:
        with claim([device], "another trial"):
            return True
    except LayoutMismatchError:
        return False


def test_slots_are_equal_and_share_cores_only_if_they_must():
    assert [slot.cores for slot in make_slots(2, [3, 5, 6, 7, 9], [])] == [(3, 5), (6, 7)]
    three = make_slots(3, [3, 5], [])
    assert [slot.cores for slot in three] == [(3,), (5,), (3,)] and all(slot.shares for slot in three)


def test_slots_on_gpus_divide_the_cores():
    slots = make_slots(4, list(range(8)), ["a", "b"])
    assert [slot.gpu for slot in slots] == ["a", "b", "a", "b"] and slots[1].cores == (2, 3)
    assert slots[0].shares and not slots[0].shares_cores
    environment = slots[0].environment()
    assert environment["CUDA_VISIBLE_DEVICES"] == "a" and environment["GMI_DRL_SHARED"] == "gpu-a"


def test_slots_with_a_gpu_each_share_cores_where_these_are_fewer():
    slots = make_slots(4, [0, 1], ["a", "b", "c", "d"])
    assert [slot.cores for slot in slots] == [(0,), (1,), (0,), (1,)] and all(slot.shares_cores for slot in slots)
    assert not any(slot.shares_cores for slot in make_slots(2, [0, 1], ["a", "b"]))


def test_a_gpu_of_a_slot_alone_is_claimed_alone_though_cores_are_shared(monkeypatch, tmp_path):
    """Another run may hold one GPU: the sweep takes the others, and waits for that one."""
    slots = make_slots(4, [0, 1], ["a", "b", "c", "d"])
    with held_elsewhere("gpu-a"):
        assert [slot.is_free() for slot in slots] == [False, True, True, True]
        with _held(slots, tmp_path):
            assert not slots[0].is_free()
    monkeypatch.setenv("GMI_DRL_SHARED", slots[1].environment()["GMI_DRL_SHARED"])
    monkeypatch.setattr(claims, "PATIENCE_S", 0.05)
    with claim(["core-1", "gpu-b"], "a trial"):
        assert can_claim("core-1"), "the trial in the fourth slot has it, too"
        assert not can_claim("gpu-b")


def test_a_slot_is_not_free_while_another_run_holds_its_core():
    first, second = make_slots(2, [0, 1], [])
    with claim(["core-0"], "a run"):
        assert first.is_free(), "this process holds it"
    assert second.is_free()


def test_each_node_of_a_cluster_has_the_slots_of_this_machine_that_fit_it():
    nodes = [RayNode("1a", "a", "10.0.0.1", cpus=4, gpus=0), RayNode("2b", "b", "10.0.0.2", cpus=3, gpus=0)]
    slots = slots_on_nodes(nodes, at_once=2, cores=[4, 5, 6, 7], gpus=[])
    assert [(slot.number, slot.node.name, slot.cores) for slot in slots] == [
        (0, "a", (4, 5)),
        (1, "a", (6, 7)),
        (2, "b", (4, 5)),
    ]
    assert slots[2].environment()["GMI_DRL_RAY_NODE"] == "2b" and slots[2].devices[0] == "core-4 of b"
    with claim(["core-4"], "a run of this machine"):
        assert slots[2].is_free(), "Ray knows"
    on_gpus = [RayNode("3c", "c", "10.0.0.3", cpus=64, gpus=1)]
    assert [slot.gpu for slot in slots_on_nodes(on_gpus, at_once=2, cores=range(8), gpus=["x", "y"])] == ["x"]
    with pytest.raises(LayoutMismatchError, match="which takes 4 CPUs and 1 GPUs: a 4 CPUs"):
        slots_on_nodes([RayNode("1a", "a", "", cpus=4, gpus=0)], at_once=1, cores=range(4), gpus=["x"])


def test_numbers_that_are_measured():
    assert candidates(trials=16, devices=2) == [1, 2, 4, 8]
    assert candidates(trials=3, devices=6) == [1, 2, 3] and candidates(trials=1, devices=2) == [1]


def test_the_last_round_counts():
    speeds = {1: 100.0, 2: 150.0, 4: 160.0}
    assert soonest(speeds, trials=16) == 4
    assert soonest(speeds, trials=2) == 2, "four slots would be half empty"
    assert soonest({1: 100.0, 2: 100.0}, trials=4) == 1


def test_what_the_sweep_or_a_cluster_holds_is_not_claimed_for_a_program(tmp_path):
    shared = make_slots(2, [0], [])
    (of_node,) = slots_on_nodes([RayNode("1a", "a", "10.0.0.1", cpus=1, gpus=0)], at_once=1, cores=[0], gpus=[])
    (alone,) = make_slots(1, [0], [])
    for slot, held in ((shared[0], []), (of_node, []), (alone, ["core-0", "sweep-core-0"])):
        with slot.held("a sweep"):
            assert sorted(claims._held) == held
