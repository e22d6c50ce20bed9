import pytest

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.hardware import Node


def node(**more):
    return parse(Node, {"version": 1, "name": "n", "cpu": {"cores": 4, "memory_gib": 8.0}, **more}, "node")


def test_gpus_are_counted_however_they_are_written():
    assert node().num_gpus == 0
    assert node(gpus={"model": "A100-SXM4-40GB", "count": 8}).num_gpus == 8
    assert node(gpus=[{"model": "A100", "count": 1}, {"model": "H100", "count": 2}]).num_gpus == 3


def test_siblings_group_cores():
    assert node().cpu.physical == ((0,), (1,), (2,), (3,))
    cpu = {"cores": 4, "memory_gib": 8, "siblings": [[0, 2], [1, 3]]}
    assert node(cpu=cpu).cpu.physical == ((0, 2), (1, 3))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cpus": {"cores_each": 3, "count": 2}}, "cpus asks for 2 x 3 cores, cpu.cores has 4"),
        ({"cpu": {"cores": 4, "memory_gib": 8, "siblings": [[0, 1]]}}, "siblings must hold each core"),
        ({"gpus": {"model": "A100", "count": 0}}, "gpus"),
        ({"version": 2}, "version"),
    ],
)
def test_wrong_nodes_are_refused(more, message):
    with pytest.raises(UsageError, match=message):
        node(**more)
