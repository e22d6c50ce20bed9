import pytest

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.hardware.node import Node

TWO = {"gpus": {"model": "A100", "count": 2}, "link": "pcie"}


def node(**more):
    return parse(Node, {"version": 1, "name": "n", "cpu": {"cores": 4, "memory_gib": 8.0}, **more}, "node")


def test_gpus_are_counted_however_they_are_written():
    assert node().num_gpus == 0
    assert node(gpus={"model": "A100-SXM4-40GB", "count": 8}).num_gpus == 8
    assert node(gpus=[{"model": "A100", "count": 1}, {"model": "H100", "count": 2}]).num_gpus == 3


def test_gpus_have_the_order_in_which_they_are_listed():
    mixed = node(gpus=[{"model": "A100", "count": 1}, {"model": "H100", "count": 2}, {"model": "A100", "count": 1}])
    assert mixed.model_of_each_gpu == ("A100", "H100", "H100", "A100")
    assert node().model_of_each_gpu == ()


def test_memory_of_a_gpu_is_what_is_told_or_what_the_catalogue_says():
    def memory(*gpus):
        return node(gpus=list(gpus)).gpu_memory_gib

    a100, h100, other = {"model": "NVIDIA A100-SXM4-40GB", "count": 8}, {"model": "h100 pcie", "count": 1}, "X"
    assert memory(a100) == memory(a100, h100) == 40.0 and 79 < memory(h100) < 80
    assert memory(a100 | {"memory_gib": 39.4}) == 39.4
    assert memory(a100, {"model": other, "count": 1}) is None
    assert memory(a100, {"model": other, "count": 1, "memory_gib": 4}) == 4
    assert node(gpus=a100).model_dump()["gpus"]["memory_gib"] is None  # a file stays as it was written


def test_of_its_gpus_a_node_may_use_some():
    a30, h100 = {"model": "A30", "count": 4}, {"model": "H100 PCIe", "count": 2}
    every = node(gpus=[a30, h100])
    some = every.only([5, 1, 3])
    assert every.num_gpus == 6 and list(every.gpu_indices) == [0, 1, 2, 3, 4, 5]
    assert some.num_gpus == 3 and list(some.gpu_indices) == [1, 3, 5] and some.gpu_models == every.gpu_models
    assert [(part.model, part.count) for part in some.used_models] == [("A30", 2), ("H100 PCIe", 1)]
    assert every.only([4, 5]).gpu_memory_gib > every.gpu_memory_gib == 24


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
        ({"gpus": {"model": "A30", "count": 2}, "used": [0, 2]}, "used must list indices of its 2 GPUs"),
        ({"gpus": {"model": "A30", "count": 2}, "used": [1, 0]}, "ascending, each once, got"),
        ({"used": [0]}, "indices of its 0 GPUs"),
        ({"links": [{"gpus": [0, 1], "kind": "nvlink"}]}, "links name GPU 0, the node has 0"),
        ({**TWO, "links": [{"gpus": [0, 2], "kind": "nvlink"}]}, "links name GPU 2, the node has 2"),
        ({**TWO, "links": [{"gpus": [1, 1], "kind": "nvlink"}]}, "links name GPUs 1 and 1 twice"),
        ({**TWO, "links": [{"gpus": [0, 1], "kind": kind} for kind in ("nvlink", "nvswitch")]}, "0 and 1 twice"),
        ({**TWO, "links": [{"gpus": [0, 1], "kind": "pcie"}]}, "no better than `link: pcie`"),
        ({**TWO, "links": [{"gpus": [0], "kind": "nvlink"}]}, "links"),
    ],
)
def test_wrong_nodes_are_refused(more, message):
    with pytest.raises(UsageError, match=message):
        node(**more)
