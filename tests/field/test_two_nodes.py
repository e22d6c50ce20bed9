"""Trainings on two unlike nodes: their layouts, and nodes that come and go. No training is run."""

import time

import pytest
import two_nodes
from trainings import our_config
from two_nodes import ELASTIC, ONE, SIDES, TASKS, ComingAndGoing, side_layout

from gmi_drl.errors import GmiError
from gmi_drl.layout.late_nodes import late_nodes
from gmi_drl.templates import WORKERS

SETTINGS = TASKS["CartPole"]


@pytest.mark.parametrize("side", sorted(SIDES))
def test_all_sides_have_equal_actors_and_samples(side):
    layout = side_layout(SETTINGS, side)
    assert WORKERS.check(layout) == [] and len(layout.with_role("simulator")) == 2
    assert our_config(SETTINGS, 1).learner.steps_of(layout) == SETTINGS.samples
    assert layout.nodes == ((None,) if side == ONE else tuple("abc"[: len(SIDES[side])]))
    assert late_nodes(layout) == ({two_nodes.JOINS} if side == ELASTIC else set())


class Supervisors:
    """Starts nothing: keeps which nodes were started, and which were killed."""

    address = "10.0.0.1"

    def __init__(self):
        self.started, self.killed, self.ended = [], [], []

    def start(self, node, order):
        self.started.append(node)
        process = type("Process", (), {"kill": lambda _: self.killed.append(node)})()
        why = {"why_ended": lambda _: None, "end": lambda _, wait_s: self.ended.append(node)}
        return type("Supervisor", (), {**why, "process": process})()


def test_a_node_joins_later_and_another_is_killed():
    started = Supervisors()
    nodes = ComingAndGoing(started, 0.05, 0.1)
    handles = [nodes.start(node, b"") for node in "abc"]
    assert started.started == ["a", "b"] and nodes.address == started.address
    until = time.monotonic() + 10
    while not started.killed and time.monotonic() < until:
        assert [handle.why_ended() for handle in handles] == [None] * 3
        time.sleep(0.01)
    for handle in handles:
        handle.end()
    assert started.started == ["a", "b", "c"] and started.killed == ["b"] and started.ended == ["a", "b", "c"]


def test_a_node_that_has_not_come_by_the_end_does_not_come():
    started = Supervisors()
    nodes = ComingAndGoing(started, 60.0, 60.0)
    for handle in [nodes.start(node, b"") for node in "abc"]:
        handle.end()
    assert started.started == started.ended == ["a", "b"] and started.killed == []


def test_an_elastic_training_in_which_no_node_came_and_went_does_not_count(monkeypatch):
    monkeypatch.setattr(two_nodes, "by_layout", lambda *args, tell, **more: iter([tell("node c is not here yet")]))
    with pytest.raises(GmiError, match=r"before the training ended \(node c is not here yet\): give it more --seconds"):
        list(two_nodes.elastic(SETTINGS, None, None, Supervisors()))
