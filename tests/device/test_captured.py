import gc
from contextlib import contextmanager

import pytest
import torch

from gmi_drl.device import captured
from gmi_drl.device.captured import WARM_UP_CALLS, Captured


def test_on_a_cpu_every_call_runs_the_function():
    total = torch.zeros(())
    add = Captured(lambda: total.add_(1), torch.device("cpu"))
    for _ in range(WARM_UP_CALLS + 3):
        add()
    assert total == WARM_UP_CALLS + 3


class FakeCuda:
    """Stands in for torch.cuda where there is none, and keeps a log."""

    def __init__(self):
        self.log = []

    def current_stream(self):
        return self

    Stream = CUDAGraph = current_stream

    def wait_stream(self, other):
        self.log.append("wait")

    def replay(self):
        self.log.append("replay")

    @contextmanager
    def stream(self, aside):
        yield

    @contextmanager
    def graph(self, graph, pool):
        assert not gc.isenabled()
        self.log.append("capture")
        yield

    def graph_pool_handle(self):
        return (0, 1)


@pytest.fixture
def fake_cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(captured, "_kept", {})
    for name in ("Stream", "CUDAGraph", "current_stream", "stream", "graph", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    shared = (captured._stream_aside, captured._pool)
    for of_all in shared:
        of_all.cache_clear()
    yield fake
    for of_all in shared:
        of_all.cache_clear()


def test_a_function_is_run_aside_then_captured_once_and_replayed_from_then_on(fake_cuda):
    work = Captured(lambda: fake_cuda.log.append("run"), torch.device("cuda"))
    for _ in range(WARM_UP_CALLS):
        work()
    assert fake_cuda.log == ["wait", "run", "wait"] * WARM_UP_CALLS
    fake_cuda.log.clear()
    work()
    work()
    assert fake_cuda.log == ["capture", "run", "replay", "replay"]
    assert gc.isenabled()


def test_a_capture_that_fails_leaves_the_garbage_collector_as_it_was(fake_cuda):
    def fail():
        raise RuntimeError("not allowed while capturing")

    work = Captured(fail, torch.device("cuda"))
    work._calls = WARM_UP_CALLS
    with pytest.raises(RuntimeError, match="not allowed"):
        work()
    assert gc.isenabled()
