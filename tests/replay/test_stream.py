import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from tests.replay.signatures import NUMBERED, numbered_steps


def numbers(storage, first, length):
    return storage.gather(torch.tensor([first]), length).fields["number"][0].tolist()


def test_every_stretch_of_an_episode_lies_in_one_piece():
    storage = make_storage(NUMBERED, 200, longest=4)
    stream, number = Stream(storage), 0
    for count in (1, 5, 40, 2, 30, 33):
        places = stream.append(numbered_steps(count, number))
        for i, place in enumerate(places.tolist()):
            last = number + i
            length = min(last + 1, 4)
            assert numbers(storage, place - (length - 1), length) == list(range(last - length + 1, last + 1))
            assert (place - (length - 1)) // storage.blocks.block_steps == place // storage.blocks.block_steps
        number += count


def test_blocks_that_cannot_be_opened_are_given_back(monkeypatch):
    storage = make_storage(NUMBERED, 200)
    stream, size = Stream(storage), storage.blocks.block_steps
    stream.append(numbered_steps(size))
    free = storage.blocks.free

    def full(block):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "seal", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                stream.append(numbered_steps(size + 1))
            with pytest.raises(OSError, match="No space left"):
                stream.reserve()
            assert storage.blocks.free == free
    places = stream.append(numbered_steps(size, size))
    assert numbers(storage, int(places[0]), size) == list(range(size, 2 * size))
    stream.close()
    assert storage.blocks.free == storage.blocks.count


def test_small_batches_go_on_in_one_block():
    storage = make_storage(NUMBERED, 1600)
    stream = Stream(storage)
    for i in range(storage.blocks.block_steps):
        assert stream.append(numbered_steps(1, i)).tolist() == [i]
    assert storage.blocks.free == storage.blocks.count - 1


def test_nothing_of_an_ended_episode_is_carried_on():
    storage = make_storage(NUMBERED, 200, longest=4)
    stream = Stream(storage)
    stream.append(numbered_steps(storage.blocks.block_steps - 1))
    assert stream.length == 4
    assert stream.end_episode({"number": torch.tensor(99)}) == storage.blocks.block_steps - 1
    assert stream.length == 0
    assert stream.append(numbered_steps(1)).item() % storage.blocks.block_steps == 0
    assert stream.end_episode() is None


def test_it_waits_for_room():
    storage = make_storage(NUMBERED, 16)
    stream = Stream(storage)
    places = stream.append(numbered_steps(storage.blocks.block_steps))
    storage.blocks.hold(storage.blocks.block_of(places))
    other = Stream(storage, holder=1)
    for _ in range(storage.blocks.count - 1):
        storage.blocks.hold(storage.blocks.block_of(other.append(numbered_steps(storage.blocks.block_steps))))
    with pytest.raises(ReplayTimeoutError, match="have items"):
        other.append(numbered_steps(1), timeout_s=0.01)


def test_wrong_steps_and_lengths_are_refused():
    storage = make_storage(NUMBERED, 200, longest=4)
    with pytest.raises(UsageError, match="items of 5 steps"):
        Stream(storage, longest=5)
    with pytest.raises(UsageError, match="number is float32"):
        Stream(storage).append({"number": torch.zeros(2)})


def test_it_goes_on_from_its_state():
    storage = make_storage(NUMBERED, 200, longest=4)
    stream, again = Stream(storage), Stream(storage)
    stream.append(numbered_steps(3))
    again.load_state_dict(stream.state_dict())
    assert again.append(numbered_steps(1, 3)).tolist() == [3]
    again.close()
    assert storage.blocks.free == storage.blocks.count


def test_full_blocks_of_before_a_restore_are_not_given_back_again():
    storage = make_storage(NUMBERED, 200)
    stream, size = Stream(storage), storage.blocks.block_steps
    stream.append(numbered_steps(3))
    streams, blocks = stream.state_dict(), storage.blocks.state_dict()
    stream.append(numbered_steps(size))  # the first block is full now, and held until the next call
    storage.blocks.load_state_dict(blocks)
    stream.load_state_dict(streams)
    stream.append(numbered_steps(1, 3))
    assert storage.blocks.free == storage.blocks.count - 1


def test_steps_that_find_no_room_are_not_written_in_part():
    storage = make_storage(NUMBERED, 200, longest=4)
    size = storage.blocks.block_steps
    stream, other = Stream(storage), Stream(storage, holder=1)
    first = stream.append(numbered_steps(5))
    other.append(numbered_steps((storage.blocks.count - 2) * (size - 3)))
    before, free = stream.state_dict(), storage.blocks.free
    with pytest.raises(ReplayTimeoutError):
        stream.append(numbered_steps(2 * size, 5), timeout_s=0.01)
    assert (stream.state_dict(), storage.blocks.free) == (before, free)
    other.close()
    places = torch.cat((first, stream.append(numbered_steps(2 * size, 5))))
    assert [numbers(storage, place, 1)[0] for place in places.tolist()] == list(range(2 * size + 5))


def test_more_steps_than_the_blocks_besides_the_open_one_take_are_refused_at_once():
    storage = make_storage(NUMBERED, 200)
    stream, (size, count) = Stream(storage), (storage.blocks.block_steps, storage.blocks.count)
    stream.append(numbered_steps(1))
    before = stream.state_dict()
    with pytest.raises(UsageError, match=f"need {count} blocks besides the open one, but there are {count} in all"):
        stream.append(numbered_steps(count * size, 1), timeout_s=0.01)
    assert stream.state_dict() == before
    assert stream.append(numbered_steps(count * size - 1, 1))[-1] == storage.steps - 1


@pytest.mark.parametrize("longest", [1, 2, 4])
def test_just_the_blocks_that_are_needed_are_leased(longest):
    for count in range(1, 110):
        storage = make_storage(NUMBERED, 300, longest=longest)
        stream = Stream(storage)
        stream.append(numbered_steps(3))
        stream.append(numbered_steps(count))
        assert storage.blocks.count - storage.blocks.free == len(stream.held)


def test_nothing_is_appended_where_there_is_nothing():
    stream = Stream(make_storage(NUMBERED, 200))
    assert stream.append(numbered_steps(0)).shape == (0,)
    assert stream.held == []
