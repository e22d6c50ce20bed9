import weakref
from types import SimpleNamespace

import pytest
import torch

from gmi_drl.roles.launcher.protocol import Measure, Stop
from gmi_drl.roles.probes.probe import ReplicaProbe
from gmi_drl.roles.training.iteration_stats import Decision


class Worlds:
    """Stand for a task."""


class Replica:
    def __init__(self, task):
        self.task, self.cycle = task, self


class AnyProbe(ReplicaProbe):
    make_replica = staticmethod(Replica)
    GMI_run = None


def test_a_measurement_has_as_many_iterations_as_it_was_given():
    probe = object.__new__(AnyProbe)
    probe._left = 3
    assert [probe._decide() for _ in range(3)] == [Decision.GO_ON, Decision.GO_ON, Decision.STOP]


def test_a_replica_is_made_and_released_with_its_task():
    probe, first, second = object.__new__(AnyProbe), Worlds(), Worlds()
    probe.detach_task()  # there are none yet
    probe.attach_task(first)
    replica = weakref.ref(probe.replica)
    assert replica().task is first
    probe.detach_task()
    assert replica() is None  # before others are made, whose memory counts
    probe.attach_task(second)
    assert probe.replica.task is second


class Order(ReplicaProbe):
    """Says what is done in which order."""

    make_replica = GMI_run = None

    def __init__(self, *words):
        self.mgr = SimpleNamespace(tasks=[], launcher=SimpleNamespace(await_messages=lambda wait_s: [*words]))
        self.said = []

    def detach_task(self):
        self.said.append("left")


def test_a_task_is_closed_before_the_next_is_made():
    probe = Order()

    def make_task(num_env, seed):
        probe.said.append("made")
        raise ZeroDivisionError

    probe.make_task, probe.seed = make_task, lambda purpose: 0
    probe.mgr.tasks.append(SimpleNamespace(close=lambda: probe.said.append("closed")))
    probe.mgr.device = torch.device("cpu")
    with pytest.raises(ZeroDivisionError):
        probe._measure(2, 0.0)
    assert probe.said == ["closed", "left", "made"]


def test_a_probe_ends_at_stop():
    orders = Order(Measure(2, 0.0), Measure(4, 0.0), Stop(), Measure(8, 0.0))._orders()
    assert [order.num_env for order in orders] == [2, 4]


class Slow(ReplicaProbe):
    """Iterations of 2 ms, but 50 ms in the warm-up, by a clock of its own."""

    make_replica = GMI_run = None
    warm_up_iterations = 3

    def __init__(self, device):
        self.mgr = SimpleNamespace(tasks=[], device=torch.device(device))
        self.done, self.now_s = 0, 0.0

    def make_task(self, num_env, seed):
        return None

    def detach_task(self):
        pass

    def attach_task(self, task):
        pass

    def seed(self, purpose):
        return 0

    def iterate(self, decide):
        self.done += 1
        self.now_s += 0.05 if self.done <= self.warm_up_iterations else 0.002
        return decide()

    def phases(self):
        return {}


@pytest.mark.parametrize(("device", "iterations", "more"), [("meta", 250, 1), ("cpu", 10, 0)])
def test_iterations_that_capture_graphs_do_not_say_how_many_fit_into_a_window(monkeypatch, device, iterations, more):
    """On cores nothing is captured, and no iteration more is spent on it."""
    probe = Slow(device)
    monkeypatch.setattr("gmi_drl.roles.probes.probe.time.monotonic", lambda: probe.now_s)
    assert probe._measure(1, 0.5)["iterations"] == iterations
    assert probe.done == probe.warm_up_iterations + more + iterations
