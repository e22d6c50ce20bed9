"""Hosts that have too little memory are told together, with numbers and remedies."""

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.hardware.host_memory import SPARE_BYTES
from gmi_drl.launch.rooms import Room, free_now, require_room, shortage
from gmi_drl.units import GIB

CHANNELS, SLOTS = Room("channels (2 x 3)", 3 * GIB, "lower max_lag"), Room("a stream", GIB, "use fewer actors")


def test_a_host_has_room_to_the_last_byte():
    assert shortage([free_now("node a", 4 * GIB + SPARE_BYTES, [CHANNELS, SLOTS])]) is None
    assert shortage([free_now("node a", 0, [])]) is None, "it needs nothing"
    assert shortage([free_now("node a", 4 * GIB + SPARE_BYTES - 1, [CHANNELS, SLOTS])]) is not None
    require_room([])


def test_all_hosts_without_room_are_told_with_what_they_need_the_most_first():
    hosts = [
        free_now("node a", GIB, [SLOTS, CHANNELS]),
        free_now("node b", 64 * GIB, [SLOTS]),
        free_now("node c", GIB, [SLOTS]),
    ]
    with pytest.raises(MachineError) as refused:
        require_room(hosts)
    has = "and 1.0 GiB are free, of which 64.0 MiB are left alone"
    assert str(refused.value) == (
        f"nothing was started: node a needs 4.0 GiB of memory, {has}: 3.0 GiB for channels (2 x 3), 1.0 GiB for a "
        f"stream\nnode c needs 1.0 GiB of memory, {has}: 1.0 GiB for a stream: lower max_lag, or use fewer actors"
    )
