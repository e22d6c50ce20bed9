import mmap
import os

import pytest
from conftest import open_descriptors

from gmi_drl.comm.memory.segment import create_segment, first_slot, map_segment
from gmi_drl.errors import MachineError, UsageError


def test_a_segment_has_room_for_every_rank():
    fd = create_segment(3, 1000)
    memory, slot_bytes = map_segment(fd, 3)
    assert 1000 <= slot_bytes < 1000 + mmap.PAGESIZE and len(memory) >= first_slot(3) + 3 * slot_bytes
    assert os.fstat(fd).st_blocks * 512 >= len(memory)  # allocated, not merely promised
    os.close(fd)


def test_too_little_memory_is_refused_with_the_numbers(monkeypatch):
    with pytest.raises(MachineError, match=r"2 ranks x 1024.0 TiB .* need 2048.0 TiB .*, but .* are available"):
        create_segment(2, 2**50)
    monkeypatch.setattr("gmi_drl.hardware.host_memory.available_bytes", lambda: 2**27)  # as a container leaves it
    before = open_descriptors()
    with pytest.raises(MachineError, match=r"2 ranks x 100.5 MiB of shared memory .* 128.0 MiB are available"):
        create_segment(2, 100 * 2**20)
    assert open_descriptors() == before


@pytest.mark.parametrize("numbers", [(0, 8), (2, 0)])
def test_numbers_must_be_positive(numbers):
    with pytest.raises(UsageError, match=f"not {numbers[0]} and {numbers[1]}"):
        create_segment(*numbers)


def test_a_segment_for_others_is_refused(tmp_path):
    fd = create_segment(2, 100)
    with pytest.raises(UsageError, match="made for 2 ranks, this group has 3"):
        map_segment(fd, 3)
    os.close(fd)
    with pytest.raises(UsageError, match="pass_fds"):
        map_segment(fd, 2)
    with open(tmp_path / "empty", "w+b") as file, pytest.raises(UsageError, match="not a segment"):
        map_segment(file.fileno(), 2)
