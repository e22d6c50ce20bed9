import threading
import time
from types import SimpleNamespace

from on_two import over

from gmi_drl.errors import GmiError
from gmi_drl.launch.nodes.joining import LateNodes

LAYOUT = over("a", "b", "c", gmis=2)


def node(name, closed):
    return SimpleNamespace(name=name, close=lambda: closed.append(name))


def until(late, told):
    """What has come, once a line is told."""
    deadline, come = time.monotonic() + 60, late.come()
    while not told:
        assert time.monotonic() < deadline
        come = come or late.come()
    return come


def test_the_gmis_of_a_node_come_when_it_is_admitted_and_a_node_that_cannot_stays_outside():
    told, closed, arriving = [], [], []

    def admit(node):
        if node.name == "c":
            raise GmiError("its cores are in use")

    late = LateNodes(LAYOUT, frozenset("bc"), lambda: [arriving.pop()] if arriving else [], admit, told.append)
    assert late.absent == {2, 3, 4, 5} and late.come() == []
    arriving.append(node("b", closed))
    assert until(late, told) == [2, 3] and late.absent == {4, 5} and closed == []
    assert told.pop() == "node b joins the run with GMI 2, 3"
    arriving.append(node("c", closed))
    assert until(late, told) == [] and closed == ["c"]
    assert told == ["node c cannot join: its cores are in use"] and late.absent == {4, 5}


def test_nodes_that_come_together_are_admitted_one_after_the_other():
    """Each finds a file of its own in the run folder, by which it knows whether it sees that."""
    told, within, together = [], [], threading.Event()
    arriving = [node("b", []), node("c", [])]

    def admit(node):
        within.append(node.name)
        if len(within) > 1:
            together.set()
        together.wait(0.2)
        within.remove(node.name)

    late = LateNodes(
        LAYOUT, frozenset("bc"), lambda: [arriving.pop(), arriving.pop()] if arriving else [], admit, told.append
    )
    deadline = time.monotonic() + 60
    while late.absent:
        late.come()
        assert time.monotonic() < deadline
    assert not together.is_set() and len(told) == 2
