"""Stretches of new items, and the blocks that they need."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.items import first_steps, lengths
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.stretches import Stretches
from tests.replay.signatures import NUMBERED, numbered_steps


@pytest.fixture
def storage():
    made = make_storage(NUMBERED, 64)
    Stream(made).append(numbered_steps(30))
    return made


@pytest.mark.parametrize("order", [list(range(20)), list(range(19, -1, -1))], ids=["a row", "any order"])
def test_words_and_blocks_are_those_of_the_items(storage, order):
    size, found = storage.blocks.block_steps, Stretches(storage, torch.tensor(order), 1)
    assert first_steps(found.words).flatten().tolist() == order
    assert lengths(found.words).unique().tolist() == [1]
    for part in (slice(0, 20), slice(3, 15), slice(0, 5)):
        values, counts = found.needed_by(part)
        needed = [block for block, count in zip(values, counts, strict=True) for _ in range(count)]
        assert needed == [step // size for step in order[part]]


def test_steps_that_nobody_holds_are_refused(storage):
    with pytest.raises(UsageError, match="nobody holds an item's steps"):
        Stretches(storage, torch.tensor([60]), 1)
