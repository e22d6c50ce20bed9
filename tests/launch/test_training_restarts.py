"""Trainings that go on after a death; nodes are processes of this machine."""

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from conftest import children_of, tiny_config, tiny_layout, two_cores

from gmi_drl.errors import GmiDiedError
from gmi_drl.files import load_yaml
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes.remote_node import RemoteNode
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Layout
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

sys.path.append(str(Path(__file__).parent / "nodes"))
from on_two import over

CONFIG = tiny_config(iterations=60, checkpoint_every=10)
"""So many that nobody is done before it is killed: a launcher may read a row late."""
ENDLESS = CONFIG.model_copy(update={"iterations": 10**6})


def killing(path, at, times=1):
    """Kills GMI 1 of the run as soon as so many iterations are done, so many times."""
    killed = []

    def hear(row):
        if row["iteration"] >= at and len(killed) < times:
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # another one has just ended
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
    expected = train(resolve(tiny_layout(2), CONFIG, whole))
    outcome = train(
        resolve(tiny_layout(2), CONFIG, folder), restarts=2, on_restart=told.append, on_row=killing(folder.path, at=13)
    )
    assert outcome.state == "done" and outcome.iteration == CONFIG.iterations
    assert read_index(outcome.checkpoint)["parts"] == read_index(expected.checkpoint)["parts"]
    assert [row["iteration"] for row in read_metrics(folder.metrics_file)] == list(range(1, CONFIG.iterations + 1))
    (line,) = told
    (saved,) = re.findall(r": going on from iteration (\d+), ", line)
    assert line.startswith("GMI 1 (process ") and 10 <= int(saved) < CONFIG.iterations and int(saved) % 10 == 0
    assert line.endswith("1 restart left") and not children_of(os.getpid())


@two_cores
def test_restarts_are_counted(tmp_path):
    folder, told = started(tmp_path / "run"), []
    with pytest.raises(GmiDiedError, match=r"GMI 1 .* was killed by SIGKILL"):
        train(
            resolve(tiny_layout(2), ENDLESS, folder),
            restarts=1,
            on_restart=told.append,
            on_row=killing(folder.path, at=1, times=9),
        )
    assert len(told) == 1 and not children_of(os.getpid())


@two_cores
def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "resumable", lambda folder: [])
    folder, told = started(tmp_path / "run"), []
    with pytest.raises(GmiDiedError):
        train(
            resolve(tiny_layout(2), ENDLESS, folder),
            restarts=3,
            on_restart=told.append,
            on_row=killing(folder.path, at=1),
        )
    assert told == []


@two_cores
def test_a_signal_between_a_death_and_its_restart_ends_the_run_where_it_stands(tmp_path, monkeypatch):
    """While the other processes are ended: it is neither swallowed nor does it disturb their end."""
    folder, told, end, starts = started(tmp_path / "run"), [], GMIProcesses.end, []

    def end_with_signals(processes):
        signal.raise_signal(signal.SIGINT)  # to this thread: in this order
        signal.raise_signal(signal.SIGTERM)
        end(processes)

    monkeypatch.setattr(GMIProcesses, "end", end_with_signals)
    more = {"on_restart": told.append, "on_row": killing(folder.path, at=13), "on_start": lambda: starts.append(1)}
    outcome = train(resolve(tiny_layout(2), ENDLESS, folder), restarts=3, **more)
    saved = int(list_checkpoints(folder.checkpoints)[-1].name)
    assert (outcome.state, outcome.iteration, outcome.signal) == ("stopped", saved, signal.SIGINT) and saved >= 10
    assert len(starts) == 1
    assert folder.read_state()["state"] == "stopped" and not children_of(os.getpid())
    assert len(told) == 1 and told[0].endswith(f"since SIGINT asks for the end: it stands at iteration {saved}")


class Remembering(SubprocessSupervisors):
    """Starts agents and keeps them, by node."""

    def __init__(self, agents):
        super().__init__()
        self.agents = agents

    def start(self, node, order):
        self.agents[node] = super().start(node, order)
        return self.agents[node]


@two_cores
def test_a_node_that_is_lost_while_its_gmis_are_started_is_left_out(tmp_path, monkeypatch):
    folder, told, agents, ask = started(tmp_path / "run"), [], {}, RemoteNode.request
    begun = train(
        resolve(over("a", "b"), CONFIG.model_copy(update={"iterations": 2}), folder),
        supervisors=SubprocessSupervisors(),
    )

    def ask_after_its_death(node, message):
        if message["type"] == "start" and node.name == "b":
            agents["b"].process.kill()
        ask(node, message)

    monkeypatch.setattr(RemoteNode, "request", ask_after_its_death)
    config = CONFIG.model_copy(update={"iterations": 3})
    starter, resume = Remembering(agents), begun.checkpoint
    outcome = train(
        resolve(over("a", "b"), config, folder), restarts=1, on_restart=told.append, resume=resume, supervisors=starter
    )
    assert outcome.state == "done" and load_yaml(Layout, folder.layout_file).nodes == ("a",)
    assert (
        told[0].startswith("GMI 2 (node b: its supervisor ") and "was lost with its node: going on from iter" in told[0]
    )


@two_cores
def test_a_lost_node_is_left_out_and_its_environments_are_taken_over(tmp_path):
    folder, told, agents, killed, stopped = started(tmp_path / "run"), [], {}, [], []

    def lose(row):
        if row["iteration"] >= 13 and not killed:
            killed.append(row)
            os.kill(agents["b"].process.pid, signal.SIGKILL)
        if told and not stopped:  # without it
            stopped.append(os.kill(os.getpid(), signal.SIGTERM))

    starter = Remembering(agents)
    outcome = train(
        resolve(over("a", "b"), ENDLESS, folder), restarts=1, on_restart=told.append, supervisors=starter, on_row=lose
    )
    assert (outcome.state, outcome.signal) == ("stopped", signal.SIGTERM)
    assert "was lost with its node: going on from iteration" in told[0] and " on a, 0 restarts left" in told[0]
    layout = load_yaml(Layout, folder.layout_file)
    assert layout.nodes == ("a",) and [gmi.num_env for gmi in layout.gmis] == [16, 16]
    assert len(list_checkpoints(folder.checkpoints)) >= 2 and not children_of(os.getpid())
