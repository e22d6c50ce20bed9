"""Each node has the memory for its part of a layout, or nothing is started."""

from types import SimpleNamespace

import pytest
from conftest import two_cores
from test_training_on_nodes import processes_of
from test_workers_on_nodes import ACTOR, POLICY, TRAINER, layout_of, start

from gmi_drl.errors import MachineError
from gmi_drl.hardware.host_memory import SPARE_BYTES
from gmi_drl.launch.nodes.room_on_nodes import rooms_on_nodes
from gmi_drl.launch.rooms import Room, shortage
from gmi_drl.run.folder import RunFolder
from gmi_drl.units import GIB

CHANNELS, SLOTS = Room("channels", 3 * GIB, "lower max_lag"), Room("a stream", GIB, "use fewer actors")
NEEDED = [("a", CHANNELS), ("b", SLOTS), ("c", SLOTS)]


def told(machines, free, of_machine=10**12, groups=None):
    nodes = {name: SimpleNamespace(name=name, machine=machine) for name, machine in machines.items()}
    opened = {
        name: {
            "free": free[name] * GIB + SPARE_BYTES,
            "memory_group": (groups or {}).get(name, name),
            "free_of_machine": of_machine,
        }
        for name in nodes
    }
    return shortage(rooms_on_nodes(NEEDED, nodes, opened))


def test_each_node_needs_what_it_will_have_alone():
    apart = {"a": "x", "b": "y"}
    assert told(apart, {"a": 3, "b": 1}) is None
    assert told(apart, {"a": 3, "b": 0}).startswith("node b needs 1.0 GiB of memory")
    both = told(apart, {"a": 2, "b": 0}).splitlines()
    assert [line[:6] for line in both] == ["node a", "node b"]
    assert both[1].endswith("lower max_lag, or use fewer actors")
    assert told({"b": "y"}, {"b": 1}) is None, "it comes later: what the others need they have"


def test_nodes_of_one_machine_need_room_there_for_all_of_them():
    alike, free = {"a": "x", "b": "x", "c": "y"}, {"a": 9, "b": 9, "c": 9}
    assert told(alike, free, of_machine=4 * GIB + SPARE_BYTES) is None
    why = told(alike, free, of_machine=4 * GIB)
    assert why.startswith("the machine of nodes a, b needs 4.0 GiB of memory, and 4.0 GiB are free") and "\n" not in why
    assert told(alike, {**free, "a": 1}, of_machine=4 * GIB).startswith("node a needs"), "the node says enough"


def test_nodes_of_one_container_need_room_there_for_all_of_them():
    alike, free = {"a": "x", "b": "x"}, {"a": 3, "b": 3}
    assert told(alike, free) is None, "each has its own limit"
    why = told(alike, free, groups={"a": "pod", "b": "pod"})
    assert why.startswith("the machine of nodes a, b needs 4.0 GiB of memory, and 3.1 GiB are free")
    assert why == told(alike, free, of_machine=GIB, groups={"a": "pod", "b": "pod"}), "told once"
    assert told({"a": "x", "b": "y"}, free, groups={"a": "pod", "b": "pod"}) is None, "of other machines"


@two_cores
def test_all_nodes_without_room_for_channels_are_named_before_any_gmi_starts(tmp_path):
    layout = layout_of(10**9, reduction="HAR", a=[TRAINER, POLICY, ACTOR], b=[TRAINER, ACTOR])
    with pytest.raises(MachineError) as refused:
        start(tmp_path / "run", layout)
    first, second = str(refused.value).splitlines()
    assert first.startswith("nothing was started: node a needs") and second.startswith("node b needs")
    assert all("channels (1 trainer, each 1000000001 batches x" in line for line in (first, second))
    assert "an inference stream (2 slots x 4 rows of" in first and "requests to other hosts (1 slot x" in second
    assert "lower max_lag in the layout" in second
    assert not any(RunFolder(tmp_path / "run").log_file(number).exists() for number in range(5))
    assert processes_of(tmp_path) == []
