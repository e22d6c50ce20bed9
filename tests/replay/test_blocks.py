import threading

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.blocks import Blocks
from gmi_drl.replay.limiters import ReplayTimeoutError


def test_a_block_is_free_when_no_item_and_no_holder_needs_it():
    blocks = Blocks(3, 10)
    first, second = blocks.lease(2, holder=0)
    blocks.hold(torch.tensor([first, first]))
    blocks.end_lease([first, second])
    assert blocks.free == 2
    blocks.release(torch.tensor([first]))
    assert blocks.free == 2
    assert blocks.are_used(torch.tensor([first]))
    blocks.release(torch.tensor([first]))
    assert blocks.free == 3
    assert not blocks.are_used(torch.tensor([first]))


def test_those_that_are_free_longest_are_leased_first():
    blocks = Blocks(3, 10)
    assert blocks.lease(2, 0) == [0, 1]
    blocks.end_lease([1])
    blocks.end_lease([0])
    assert blocks.lease(3, 0) == [2, 1, 0]


def test_a_lease_that_ends_twice_frees_once():
    blocks = Blocks(2, 10)
    blocks.lease(1, 0)
    for _ in range(2):
        blocks.end_lease([0])
    assert blocks.free == 2 and sorted(blocks.lease(2, 0)) == [0, 1]


def test_what_a_reader_may_read_is_not_free_before_it_ends():
    blocks = Blocks(2, 10)
    (block,) = blocks.lease(1, 0)
    early = blocks.begin_reading()
    blocks.end_lease([block])
    assert (blocks.free, blocks.free_when_read) == (1, 2)
    blocks.begin_reading()  # a later one does not matter
    blocks.end_reading(early)
    assert blocks.free == 2


def test_what_a_reader_holds_is_free_once_and_not_before_its_release():
    blocks = Blocks(3, 10)
    first, second = blocks.lease(2, 0)
    ticket = blocks.begin_reading()
    blocks.end_lease([first, second])
    blocks.hold(torch.tensor([first, second, first]))
    blocks.end_reading(ticket)
    assert blocks.free == 1
    blocks.release(torch.tensor([first, second, first]))
    assert blocks.free == 3 and sorted(blocks.lease(3, 0)) == [0, 1, 2]


def test_it_says_who_needs_the_blocks_when_none_becomes_free():
    blocks = Blocks(2, 10)
    blocks.lease(2, 0)
    with pytest.raises(ReplayTimeoutError, match="2 are written to, 0 have items, 0 are still read, 0 are free"):
        blocks.lease(1, 1, timeout_s=0.01)
    with pytest.raises(UsageError, match="3 blocks are more than all 2"):
        blocks.lease(3, 1)


def test_who_waits_is_served_when_a_block_is_free():
    blocks = Blocks(1, 10)
    blocks.lease(1, 0)
    timer = threading.Timer(0.05, blocks.end_lease, ([0],))
    timer.start()
    assert blocks.lease(1, 1, timeout_s=60) == [0]
    timer.join()


def test_state_comes_back():
    blocks, again = Blocks(3, 10), Blocks(3, 10)
    blocks.lease(2, 5)
    blocks.hold(torch.tensor([1]))
    blocks.end_lease([0])
    again.load_state_dict(blocks.state_dict())
    again.end_lease([0, 1])
    assert again.lease(2, 0) == blocks.lease(2, 0) == [2, 0]
    assert again.are_used(torch.tensor([1]))


def test_a_lease_after_a_restore_is_newer_than_all_before_it():
    blocks, again = Blocks(4, 10), Blocks(4, 10)
    for _ in range(3):
        blocks.lease(1, 5)
    again.load_state_dict(blocks.state_dict())
    (newest,) = again.lease(1, 0)
    opened = again.state_dict()["opened"]
    assert opened[:3].tolist() == [0, 1, 2] and opened[newest] > 2


def test_a_state_without_ages_is_read():
    blocks, again = Blocks(3, 10), Blocks(3, 10)
    blocks.lease(2, 5)
    again.load_state_dict({name: part for name, part in blocks.state_dict().items() if name != "opened"})
    assert again.lease(1, 0) == [2]


def test_items_of_an_open_block_change_nothing_for_those_that_wait_for_a_reader():
    blocks = Blocks(3, 10)
    first, second = blocks.lease(2, 0)
    ticket = blocks.begin_reading()
    blocks.end_lease([first])
    blocks.hold(torch.tensor([second, second]))
    assert blocks.free == 1
    blocks.end_reading(ticket)
    assert blocks.free == 2
