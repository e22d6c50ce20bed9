import pytest

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.profiler.backends_here import backends_here
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
NODE = Node(name="here", gpus=Gpus(model="NVIDIA A30", count=1), cpu=Cpu(cores=2, memory_gib=8))


def test_what_cannot_be_had_here_is_left_out_with_the_reason(fake_nvml, monkeypatch):
    from tests.gmi.nvml.fake import FakeGpu

    fake_nvml.add(FakeGpu(name="NVIDIA A30"))
    monkeypatch.setenv("PATH", "/nowhere")
    names, told = backends_here(("process", "mps", "mig"), ANT, NODE)
    assert names == ("process",) and len(told) == 2
    assert told[0].startswith("backend mps is left out, it cannot be had here: nvidia-cuda-mps-control is not on")
    assert told[1].startswith("backend mig is left out, it cannot be had here: ")


def test_what_gpus_of_a_model_never_have_is_left_out_as_well(fake_nvml):
    from tests.gmi.nvml.fake import FakeGpu

    fake_nvml.add(FakeGpu(name="Tesla V100-SXM2-32GB"))
    node = NODE.model_copy(update={"gpus": Gpus(model="Tesla V100-SXM2-32GB", count=1)})
    names, told = backends_here(("process", "mig"), ANT, node)
    assert names == ("process",) and len(told) == 1 and "has no MIG" in told[0]


def test_where_none_can_be_had_the_reason_is_told_once(fake_nvml, monkeypatch):
    from tests.gmi.nvml.fake import FakeGpu

    fake_nvml.add(FakeGpu(name="NVIDIA A30"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LayoutMismatchError, match=r"^backend mps is left out, it cannot be had here: nvidia-cuda-mps"):
        backends_here(("mps",), ANT, NODE)
    assert backends_here(("process",), ANT, NODE) == (("process",), [])
