import numpy as np
import pytest
import torch

from gmi_drl.replay.items import Items, first_steps, lengths, priorities_of, stretches_of


def inserted(items, count, priority=2.0):
    """The slots and keys of new items."""
    return items.insert(torch.full((count, 1), 7), torch.full((count,), priority, dtype=torch.float64), 0)


def test_keys_have_the_slot_below_and_its_uses_above():
    items = Items(4, 1)
    slots, keys = inserted(items, 3)
    assert keys.tolist() == [(1 << 32) + slot for slot in slots.tolist()]
    items.delete(slots)
    assert (inserted(items, 4)[1] >> 32).tolist() == [1, 2, 2, 2]


def test_unknown_and_outdated_keys_are_not_found():
    items = Items(2, 1)
    slots, old = inserted(items, 2)
    items.delete(slots[:1])
    assert items.find(old).tolist() == [-1, 1]
    inserted(items, 1)
    assert items.find(old).tolist() == [-1, 1]
    assert items.find(torch.tensor([0, -1, 1 << 62, (1 << 32) + 5, 1])).tolist() == [-1] * 5


def test_slots_are_used_again_in_the_order_of_their_release():
    items = Items(5, 1)
    inserted(items, 5)
    items.delete(torch.tensor([3, 1]))
    items.delete(torch.tensor([4]))
    assert items.free == 3
    assert inserted(items, 2)[0].tolist() == [3, 1]
    assert inserted(items, 1)[0].tolist() == [4]


def test_a_record_tells_all_of_an_item():
    items = Items(5, 1)
    slots, _ = inserted(items, 3, 0.25)
    items.set_priorities(slots[:1], torch.tensor([8.5], dtype=torch.float64))
    records = items.sampled(torch.tensor([0, 2, 0]))
    assert records[:, 1].tolist() == [2, 1, 2]
    assert priorities_of(records).tolist() == [8.5, 0.25, 8.5]
    assert records[:, 3].tolist() == [7, 7, 7]


def test_stretches_are_words():
    words = torch.from_numpy(stretches_of(np.array([0, 2**38]), np.array([1, 2**24 - 1])))
    assert first_steps(words).tolist() == [0, 2**38]
    assert lengths(words).tolist() == [1, 2**24 - 1]


def test_state_comes_back():
    items, again = Items(5, 1), Items(5, 1)
    inserted(items, 4)
    items.delete(torch.tensor([2, 0]))
    again.load_state_dict(items.state_dict())
    assert inserted(again, 3)[1].tolist() == inserted(items, 3)[1].tolist()


@pytest.mark.parametrize("key", [0, -1, 1 << 32 | 4, 1 << 32 | (2**32 - 1), 1 << 32])
def test_a_key_that_no_item_has_had_is_not_found(key):
    items = Items(4, 1)
    assert items.find(torch.tensor([key])).tolist() == [-1]
    _, keys = items.insert(torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, dtype=torch.float64), 0)
    assert items.find(keys).tolist() == [0, 1]
    if key not in keys:
        assert items.find(torch.cat((keys, torch.tensor([key])))).tolist() == [0, 1, -1]
