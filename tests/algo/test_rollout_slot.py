import weakref

import torch

from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector

CPU = torch.device("cpu")


def make_slot():
    return Slot(Rollout(RolloutForm(2, 3, vector(4), continuous(1)), CPU))


def count(rollout):
    rollout.sums += 1


def count_twice(rollout):
    rollout.sums += 2


def test_each_slot_keeps_what_was_captured_over_it_for_each_function():
    slots = [make_slot(), make_slot()]
    for slot in slots:
        slot.run(count)
    before = [slot._captured[count] for slot in slots]
    for slot in 2 * slots:
        slot.run(count)
        slot.run(count_twice)
    assert [slot._captured[count] for slot in slots] == before and before[0] is not before[1]
    assert all(set(slot._captured) == {count, count_twice} for slot in slots)
    assert [slot.rollout.sums[0].item() for slot in slots] == [7, 7]


def test_a_slot_that_is_dropped_takes_all_of_it_along():
    slot = make_slot()
    slot.run(count)
    left = [weakref.ref(slot.rollout), weakref.ref(slot._captured[count])]
    del slot
    assert [reference() for reference in left] == [None, None]  # at once, with no cycle to be found first
