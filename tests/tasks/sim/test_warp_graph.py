"""How work is recorded and on which streams it runs, where no driver is."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from conftest import quick_kernels

from gmi_drl.errors import MachineError

quick_kernels()

import warp as wp  # noqa: E402

from gmi_drl.tasks.sim import warp_graph  # noqa: E402
from gmi_drl.tasks.sim.warp_graph import Work  # noqa: E402

GPU = torch.device("cuda:0")


def test_a_graph_that_is_refused_all_the_same_is_an_error_that_names_the_setting():
    def launch():
        if runtime._apic_capture:
            raise RuntimeError("operation not permitted when stream is capturing")

    runtime = wp._src.context.runtime
    with pytest.raises(MachineError, match=r"not permitted.*--set cuda_graphs=false"):
        Work(launch, torch.device("cpu"))


class Registered:
    """Warp's `Stream`, the end of any of which unregisters the handle, as in `warp.cu`."""

    handles: ClassVar = set()

    def __init__(self, device, cuda_stream):
        self.cuda_stream = cuda_stream
        self.handles.add(cuda_stream)

    def __del__(self):
        self.handles.discard(self.cuda_stream)

    def wait_stream(self, other):
        assert {self.cuda_stream, other.cuda_stream} <= self.handles


@pytest.fixture
def streams(monkeypatch):
    """A GPU on which Warp's current stream is 1 and torch's is `torchs`."""
    gpu, now = SimpleNamespace(is_cpu=False), SimpleNamespace(torchs=2)
    own = Registered(gpu, 1)
    for name, stand_in in {
        "Stream": Registered,
        "device_from_torch": lambda device: gpu,
        "get_stream": lambda device=None: own,
        "stream_from_torch": lambda device: Registered(gpu, now.torchs),
        "ScopedDevice": lambda device: nullcontext(),
    }.items():
        monkeypatch.setattr(wp, name, stand_in)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=now.torchs))
    warp_graph.stream_at.cache_clear()
    yield now
    warp_graph.stream_at.cache_clear()


@pytest.mark.parametrize("torchs", [1, 2])
def test_a_stream_that_warp_knows_stays_registered_after_work_on_it(streams, torchs):
    """Warp's current one, or that of a lane on which a simulator was made."""
    streams.torchs = torchs
    lane = warp_graph.current_stream(GPU)
    for _ in range(2):
        Work(lambda: None, GPU, replay=False)()
        assert warp_graph.current_stream(GPU) is lane
        assert {1, torchs} <= Registered.handles
