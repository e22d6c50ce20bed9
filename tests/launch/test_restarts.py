"""Trainings that go on after a death; nodes are processes of this machine."""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from conftest import children_of, tiny_config, tiny_layout, two_cores

from gmi_drl.cluster import Cluster, Network, Nodes
from gmi_drl.cut import Cut
from gmi_drl.errors import GmiDiedError
from gmi_drl.files import load_yaml
from gmi_drl.hardware import Cpu, Node
from gmi_drl.launch.nodes.hub import RemoteNode
from gmi_drl.launch.nodes.starters import SubprocessAgents
from gmi_drl.launch.restarts import _what_is_left, train_on, without_node
from gmi_drl.launch.started import LOST
from gmi_drl.launch.training import train
from gmi_drl.layout import GMI, Channels, Device, GmiGroup, Layout
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.templates import DECOUPLED, TDG_EX
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.workload import TASK_SPECS

sys.path.append(str(Path(__file__).parent / "nodes"))
from on_two import over

CONFIG = tiny_config(iterations=8, checkpoint_every=2)


def killing(path, at, times=1):
    """Kills GMI 1 of the run as soon as so many iterations are done, so many times."""
    killed = []

    def hear(row):
        if row["iteration"] >= at and len(killed) < times:
            for child in psutil.Process().children(recursive=True):
                if f"GMI 1 of {path}" in " ".join(child.cmdline()):
                    killed.append(child.pid)
                    child.kill()

    return hear


def started(path):
    folder = RunFolder(path)
    folder.create()
    return folder


@two_cores
def test_a_run_goes_on_after_a_death_as_if_nothing_had_been(tmp_path):
    whole, folder, told = started(tmp_path / "whole"), started(tmp_path / "run"), []
    expected = train(tiny_layout(2), CONFIG, whole)
    outcome = train_on(tiny_layout(2), CONFIG, folder, restarts=2, tell=told.append, on_row=killing(folder.path, at=3))
    assert outcome.state == "done" and outcome.iteration == 8
    assert read_index(outcome.checkpoint)["parts"] == read_index(expected.checkpoint)["parts"]
    assert [row["iteration"] for row in read_metrics(folder.metrics_file)] == list(range(1, 9))
    (line,) = told
    assert line.startswith("GMI 1 (process ") and ": going on from iteration 2, " in line
    assert line.endswith("1 restart left") and not children_of(os.getpid())


@two_cores
def test_restarts_are_counted(tmp_path):
    folder, told = started(tmp_path / "run"), []
    with pytest.raises(GmiDiedError, match=r"GMI 1 .* was killed by SIGKILL"):
        train_on(
            tiny_layout(2), CONFIG, folder, restarts=1, tell=told.append, on_row=killing(folder.path, at=1, times=9)
        )
    assert len(told) == 1 and not children_of(os.getpid())


@two_cores
def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path, monkeypatch):
    monkeypatch.setattr("gmi_drl.launch.restarts.list_checkpoints", lambda folder: [])
    folder, told = started(tmp_path / "run"), []
    with pytest.raises(GmiDiedError):
        train_on(tiny_layout(2), CONFIG, folder, restarts=3, tell=told.append, on_row=killing(folder.path, at=1))
    assert told == []


class Remembering(SubprocessAgents):
    """Starts agents and keeps them, by node."""

    def __init__(self, agents):
        super().__init__()
        self.agents = agents

    def start(self, node, order):
        self.agents[node] = super().start(node, order)
        return self.agents[node]


@two_cores
def test_a_node_that_is_lost_while_its_gmis_are_started_is_left_out(tmp_path, monkeypatch):
    folder, told, agents, ask = started(tmp_path / "run"), [], {}, RemoteNode.ask
    begun = train(over("a", "b"), CONFIG.model_copy(update={"iterations": 2}), folder, agents=SubprocessAgents())

    def ask_after_its_death(node, message):
        if message["say"] == "start" and node.name == "b":
            agents["b"].process.kill()
        ask(node, message)

    monkeypatch.setattr(RemoteNode, "ask", ask_after_its_death)
    config = CONFIG.model_copy(update={"iterations": 3})
    starter, resume = Remembering(agents), begun.checkpoint
    outcome = train_on(over("a", "b"), config, folder, restarts=1, tell=told.append, resume=resume, agents=starter)
    assert outcome.state == "done" and load_yaml(Layout, folder.layout_file).nodes == ("a",)
    assert told[0].startswith("GMI 2 (node b: its agent ") and "was lost with its node: going on from iter" in told[0]


@two_cores
def test_a_lost_node_is_left_out_and_its_environments_are_taken_over(tmp_path):
    folder, told, agents = started(tmp_path / "run"), [], {}

    def lose(row):
        if row["iteration"] == 3 and not told:
            os.kill(agents["b"].process.pid, signal.SIGKILL)

    config = CONFIG.model_copy(update={"iterations": 12})
    starter = Remembering(agents)
    outcome = train_on(over("a", "b"), config, folder, restarts=1, tell=told.append, agents=starter, on_row=lose)
    assert outcome.state == "done" and outcome.iteration == 12
    assert "was lost with its node: going on from iteration" in told[0] and " on a, 0 restarts left" in told[0]
    layout = load_yaml(Layout, folder.layout_file)
    assert layout.nodes == ("a",) and [gmi.num_env for gmi in layout.gmis] == [16, 16]
    assert len(list_checkpoints(folder.checkpoints)) >= 2 and not children_of(os.getpid())


def test_environments_are_dealt_out_as_evenly_as_they_divide():
    layout = without_node(over("a", "b", "c", gmis=2, num_env=5), "a")
    assert [gmi.num_env for gmi in layout.gmis] == [8, 8, 7, 7] and layout.num_env == 30
    assert [gmi.id for gmi in layout.gmis] == [0, 1, 2, 3] and layout.nodes == ("b", "c")
    assert layout.groups["trainers"].members == (0, 1, 2, 3) and layout.groups["trainers"].reduction == "HAR"
    alone = without_node(over("a", "b", gmis=1), "b")
    assert alone.groups["trainers"].reduction == "none" and layout.reasons[-1] == "goes on without node a"


def test_where_roles_are_apart_simulators_take_over_the_environments():
    kind = Node(name="n", cpu=Cpu(cores=4, memory_gib=8))
    cluster = Cluster(nodes=(Nodes(count=2, node=kind),), network=Network(gbit_per_s=10.0, round_trip_ms=0.1))
    layout = OverNodes(TDG_EX, cluster).lay_out(TASK_SPECS["ant"], cluster.whole, Cut(4, 5))
    left = without_node(layout, layout.nodes[0])
    assert [gmi.num_env for gmi in left.gmis] == [10, 10, 0, 0] and TDG_EX.check(left) == []


def test_a_layout_by_mrr_that_loses_a_node_goes_on_by_a_method_for_what_is_left():
    layout = over("a", "b", gmis=2)
    by_mrr = GmiGroup(members=layout.groups["trainers"].members, reduction="MRR")
    layout = layout.model_copy(update={"groups": {"trainers": by_mrr}})
    rest = without_node(layout, "a")
    assert rest.nodes == ("b",) and rest.num_env == layout.num_env
    assert {group.reduction for group in rest.groups.values()} == {"HAR"}


def test_agents_of_channels_keep_their_environments_and_nobody_replaces_the_last_trainer():
    def on(node, *gmis):
        return Device(node=node, kind="cpu", gmis=gmis)

    def acts(gmi_id):
        return GMI(id=gmi_id, roles=("simulator", "agent"), num_env=8, cores=(gmi_id,))

    layout = Layout(
        task="ant",
        template="decoupled",
        devices=(on("a", GMI(id=0, roles=("trainer",), cores=(0,)), acts(1)), on("b", acts(2), acts(3))),
        groups={"trainers": GmiGroup(members=(0,))},
        channels=Channels(max_lag=7),
    )
    rest = without_node(layout, "b")
    assert [gmi.num_env for gmi in rest.gmis] == [0, 8] and rest.channels == layout.channels
    assert DECOUPLED.check(rest) == []
    deaths = {gmi: SimpleNamespace(exit_code_of_gmi=LOST, gmi_id=gmi) for gmi in (0, 3)}
    assert _what_is_left(layout, deaths[3]) == rest and _what_is_left(layout, deaths[0]) is None
    assert _what_is_left(rest, deaths[0]) is None


def test_a_node_is_not_left_out_where_trainers_of_another_one_would_be_without_agents():
    def on(node, first, *roles):
        gmis = [
            GMI(id=first + i, roles=one, num_env=8 * (one != ("trainer",)), cores=(i,)) for i, one in enumerate(roles)
        ]
        return Device(node=node, kind="cpu", gmis=tuple(gmis))

    acts, trains = ("simulator", "agent"), ("trainer",)
    layout = Layout(
        task="ant",
        template="decoupled",
        devices=(on("a", 0, acts, trains), on("b", 2, trains), on("c", 3, acts)),
        groups={"trainers": GmiGroup(members=(1, 2), reduction="HAR")},
        channels=Channels(),
    )
    assert DECOUPLED.check(layout) == []
    a, b, c = (_what_is_left(layout, SimpleNamespace(exit_code_of_gmi=LOST, gmi_id=gmi)) for gmi in (0, 2, 3))
    assert a.nodes == ("b", "c") and b.nodes == ("a", "c") and c is None
