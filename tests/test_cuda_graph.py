import gc
import weakref
from contextlib import contextmanager

import pytest
import torch

from gmi_drl import cuda_graph
from gmi_drl.cuda_graph import WARM_UP_CALLS, Captured


def test_on_a_cpu_every_call_runs_the_function():
    total = torch.zeros(())
    add = Captured(lambda: total.add_(1), torch.device("cpu"))
    for _ in range(WARM_UP_CALLS + 3):
        add()
    assert total == WARM_UP_CALLS + 3


class FakeCuda:
    """Stands in for torch.cuda where there is none, and keeps a log."""

    def __init__(self):
        self.log, self.pools, self.graphs = [], [], []

    def current_stream(self):
        return self

    Stream = current_stream

    def make_graph(self):
        graph = Graph(self)
        self.graphs.append(weakref.ref(graph))
        return graph

    CUDAGraph = make_graph

    def wait_stream(self, other):
        self.log.append("wait")

    @contextmanager
    def stream(self, aside):
        yield

    @contextmanager
    def graph(self, graph, pool):
        assert not gc.isenabled()
        self.log.append("capture")
        self.pools.append(pool)
        yield

    def graph_pool_handle(self):
        return object()


class Graph:
    def __init__(self, cuda):
        self.cuda = cuda

    def replay(self):
        self.cuda.log.append("replay")


@pytest.fixture
def fake_cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(cuda_graph, "_kept", {})
    for name in ("Stream", "CUDAGraph", "current_stream", "stream", "graph", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    shared = (cuda_graph._side_stream, cuda_graph._pool)
    for of_all in shared:
        of_all.cache_clear()
    yield fake
    for of_all in shared:
        of_all.cache_clear()


def test_a_function_is_warmed_up_captured_once_and_replayed_from_then_on(fake_cuda):
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


def captured_work():
    work = Captured(lambda: None, torch.device("cuda"))
    for _ in range(WARM_UP_CALLS + 1):
        work()
    return work


def test_graphs_share_memory_until_it_is_forgotten(fake_cuda):
    first, second = captured_work(), captured_work()
    del first, second
    third = captured_work()
    alive = [graph() is not None for graph in fake_cuda.graphs]
    assert len(set(fake_cuda.pools)) == 1 and alive == [True, False, True], "the first keeps the memory"
    del third
    cuda_graph.forget_shared_memory()
    assert not any(graph() for graph in fake_cuda.graphs), "nothing keeps it"
    assert captured_work() is not captured_work() and len(fake_cuda.pools) == 5
    assert len(set(fake_cuda.pools[:3])) == len(set(fake_cuda.pools[3:])) == 1
    assert len(set(fake_cuda.pools)) == 2
