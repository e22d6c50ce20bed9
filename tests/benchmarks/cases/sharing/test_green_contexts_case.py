"""Two simulators at once: the split with a driver that stands for CUDA's, the simulators and sides on cores."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from gmi_drl.benchmarks.cases.common import shared_gpu
from gmi_drl.benchmarks.cases.sharing import green_context_split, green_contexts
from gmi_drl.benchmarks.cases.sharing.green_context_roles import Lane, Simulators
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import MachineError
from gmi_drl.hardware.node import Cpu, Gpus, Node


class Driver:
    """The functions of cuda.bindings.driver that are called, for a GPU of 132 SMs."""

    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)
    CUgreenCtxCreate_flags = SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=1)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    def __init__(self, code=0, parts=None):
        self.code, self.parts, self.calls = code, parts, []

    def cuDeviceGet(self, index):  # noqa: N802
        return 0, index

    def cuDeviceGetDevResource(self, device, kind):  # noqa: N802
        return 0, SimpleNamespace(sm=SimpleNamespace(smCount=132))

    def cuDevSmResourceSplitByCount(self, count, whole, flags, each):  # noqa: N802
        self.calls.append((count, each))
        found = self.parts or count
        return self.code, [SimpleNamespace(sm=SimpleNamespace(smCount=each))] * found, found, None

    def cuDevResourceGenerateDesc(self, parts, count):  # noqa: N802
        return 0, ("described", len(parts))

    def cuGreenCtxCreate(self, described, device, flags):  # noqa: N802
        assert described == ("described", 1)
        return 0, f"context on {device}"

    def cuGreenCtxStreamCreate(self, context, flags, priority):  # noqa: N802
        self.calls.append(context)
        return 0, 1000 + len(self.calls)


@pytest.fixture
def driver(monkeypatch):
    def install(found):
        bindings = ModuleType("cuda.bindings")
        bindings.driver = found
        monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
        monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
        return found

    monkeypatch.setattr(torch, "ones", lambda *shape, **more: None)
    green_context_split.split.cache_clear()
    yield install
    green_context_split.split.cache_clear()


def test_one_call_splits_the_sms_so_that_parts_are_disjoint(driver):
    found = driver(Driver())
    assert [part.sms for part in green_context_split.split(2)] == [64, 64]
    assert (
        found.calls[0] == (2, 64) and green_context_split.split(2)[0].stream != green_context_split.split(2)[1].stream
    )
    assert len(found.calls) == 3  # the second and third time the parts are those of the first


@pytest.mark.parametrize(("answers", "message"), [({"code": 801}, "801"), ({"parts": 1}, "1 parts of 64 SMs of 132")])
def test_a_driver_that_cannot_is_an_error(driver, answers, message):
    driver(Driver(**answers))
    with pytest.raises(MachineError, match=message):
        green_context_split.split(2)


def test_simulators_share_the_environments_and_begin_in_equal_states():
    pair = Simulators("ant", 6, torch.device("cpu"), 1, [Lane(), Lane()])
    first, second = pair._sims
    before = first.get("qpos").clone()
    pair.step()
    assert len(before) == 3 and not torch.equal(first.get("qpos"), before)
    assert torch.equal(first.get("qpos"), second.get("qpos"))
    pair.close()


def test_on_a_gpu_every_way_is_a_side_and_mps_has_two_processes_capped_and_not():
    node = Node(name="h200", gpus=Gpus(model="NVIDIA H200", count=2), cpu=Cpu(cores=4, memory_gib=64))
    found = green_contexts.sessions(node, ("process",))
    assert list(found) == list(green_contexts.IN_ONE_PROCESS)
    assert {role.partition(":")[2] for session in found.values() for role in session.roles.values()} == {
        "OneSimulator",
        "OneStream",
        "TwoStreams",
        "TwoParts",
    }
    assert all(len(session.layout.gmis) == 1 and len(session.layout.devices) == 1 for session in found.values())
    ways = (shared_gpu.PLAIN, shared_gpu.MPS, shared_gpu.CAPPED_MPS)
    pairs = [session for name, session in green_contexts.sessions(node, ways).items() if name.endswith("MPS")]
    assert [[gmi.share for gmi in pair.layout.gmis] for pair in pairs] == [[None, None], [0.5, 0.5]]


def test_sides_run_on_cores(monkeypatch):
    monkeypatch.setattr(green_contexts.requirements, "warp_on_gpu", lambda: None)
    monkeypatch.setattr(green_contexts.green_context_split, "missing", lambda: None)
    monkeypatch.setattr(shared_gpu.requirements, "mps", lambda: "none here")
    result = run_case(green_contexts.CASE, repeats=1, quick=True)
    assert list(result.samples) == list(green_contexts.ON_CORES)
    assert all(samples[0].details["num_env"] == 8 for samples in result.samples.values())
    assert all(samples[0].details["sim_s"] > 0 for samples in result.samples.values())
