import pynvml
import pytest

from gmi_drl.gmi.inventory import gpus_open, this_node, topology
from gmi_drl.gmi.inventory.topology import islands
from gmi_drl.hardware.links import best_linked
from tests.gmi.nvml.fake import FakeGpu

A100 = FakeGpu("NVIDIA A100-SXM4-40GB")


def found():
    with gpus_open() as (nvml, seen):
        return topology(nvml, seen.gpus)


def test_two_islands_are_two_groups(fake_nvml):
    fake_nvml.add(*[A100] * 8)
    fake_nvml.nvlink(0, 1, 2, 3)
    fake_nvml.nvlink(4, 5, 6, 7, lanes=2)
    node = this_node()
    assert node.link == "pcie" and [(links.gpus, links.kind) for links in node.links] == [
        ((0, 1, 2, 3), "nvlink"),
        ((4, 5, 6, 7), "nvlink"),
    ]
    assert best_linked(node, 4) == (0, 1, 2, 3)
    assert found().nvlinks[0, 1] == 4 and found().nvlinks[4, 5] == 2 and (3, 4) not in found().nvlinks


def test_gpus_on_switches_are_linked_with_each_other(fake_nvml):
    fake_nvml.add(*[A100] * 4)
    fake_nvml.nvswitch(0, 1, 2, 3, lanes=12)
    node = this_node()
    assert (node.link, node.links) == ("nvswitch", ()) and found().nvlinks[1, 3] == 12


def test_indices_are_those_of_the_gpus_that_may_be_used(fake_nvml, monkeypatch):
    fake_nvml.add(*[A100] * 4)
    fake_nvml.nvlink(1, 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,0,1")
    ((links,),) = [this_node().links]
    assert links.gpus == (0, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert this_node().link == "nvlink"


def test_links_that_are_down_and_mig_devices_connect_nothing(fake_nvml, monkeypatch):
    fake_nvml.add(A100, A100, FakeGpu(mig=("3g.71gb", "3g.71gb")))
    fake_nvml.nvlink(0, 1, lanes=1)
    fake_nvml.write("gpus/0/nvlink/0", "down")
    fake_nvml.write("gpus/1/nvlink/0", "down")
    assert (this_node().link, this_node().links) == ("pcie", ())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(fake_nvml.mig_uuids(2)))
    assert this_node().num_gpus == 2 and this_node().link == "pcie"


def test_one_gpu_or_none_has_no_link(fake_nvml):
    assert this_node().link == "none"
    fake_nvml.add(A100)
    assert this_node().link == "none"


def test_where_pcie_paths_meet(fake_nvml):
    fake_nvml.add(A100, A100, A100)
    fake_nvml.write("gpus/0/ancestor/1", 10)
    fake_nvml.write("gpus/0/ancestor/2", 50)
    paths = found().paths
    assert paths[0, 1] == "through one PCIe switch" and paths[0, 2] == "between NUMA nodes"
    fake_nvml.fail("nvmlDeviceGetTopologyCommonAncestor", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert found().paths == {}


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ([], []),
        ([(0, 1), (1, 2), (0, 2), (3, 4)], [[0, 1, 2], [3, 4]]),
        ([(0, 1), (1, 2), (2, 3), (0, 3)], [[0, 1], [0, 3], [1, 2], [2, 3]]),
    ],
)
def test_gpus_that_are_not_all_linked_are_listed_by_pairs(pairs, groups):
    assert list(islands(pairs)) == groups
