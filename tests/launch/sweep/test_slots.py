from gmi_drl.gmi.claims import claim
from gmi_drl.launch.sweep.measure import candidates, soonest
from gmi_drl.launch.sweep.slots import make_slots


def test_slots_are_equal_and_share_cores_only_if_they_must():
    assert [slot.cores for slot in make_slots(2, [3, 5, 6, 7, 9], [])] == [(3, 5), (6, 7)]
    three = make_slots(3, [3, 5], [])
    assert [slot.cores for slot in three] == [(3,), (5,), (3,)] and all(slot.shares for slot in three)


def test_slots_on_gpus_divide_the_cores(tmp_path):
    slots = make_slots(4, list(range(8)), ["a", "b"])
    assert [slot.gpu for slot in slots] == ["a", "b", "a", "b"] and slots[1].cores == (2, 3)
    assert slots[0].shares and slots[0].environment(tmp_path)["CUDA_VISIBLE_DEVICES"] == "a"


def test_a_slot_is_not_free_while_another_run_holds_its_core():
    first, second = make_slots(2, [0, 1], [])
    with claim(["core-0"], "a run"):
        assert first.is_free(), "this process holds it"
    assert second.is_free()


def test_numbers_that_are_measured():
    assert candidates(trials=16, devices=2) == [1, 2, 4, 8]
    assert candidates(trials=3, devices=6) == [1, 2, 3] and candidates(trials=1, devices=2) == [1]


def test_the_last_round_counts():
    speeds = {1: 100.0, 2: 150.0, 4: 160.0}
    assert soonest(speeds, trials=16) == 4
    assert soonest(speeds, trials=2) == 2, "four slots would be half empty"
    assert soonest({1: 100.0, 2: 100.0}, trials=4) == 1
