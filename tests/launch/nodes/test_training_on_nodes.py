"""Trainings over two nodes: their agents, GMIs and processes are real, and all on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import children_of, environment, open_descriptors, two_cores
from on_two import config, over

from gmi_drl.errors import GmiDiedError, GmiError, LayoutMismatchError, MachineError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes import remote_hosts
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.training import train
from gmi_drl.run.folder import RunFolder
from tests.fork_server import SERVER

ENDLESS = config(iterations=10**6)


def trained(path, layout, agents, **more):
    folder = RunFolder(path)
    folder.create()
    outcome = train(resolve(layout, more.pop("config", config()), folder), supervisors=agents, **more)
    return folder, outcome


def learner(outcome):
    return json.loads((outcome.checkpoint / "checkpoint.json").read_text())["learner"]


def processes_of(path):
    """All that works for a run: its supervisors, GMIs and guards, whoever their parent is."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(path) in line and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
            found.append(process)
    return found


def gone(pids, within_s=60.0):
    deadline = time.monotonic() + within_s
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@two_cores
def test_two_nodes_learn_what_one_with_two_devices_learns(tmp_path):
    _, here = trained(tmp_path / "here", over(None, None), None)
    before = open_descriptors()  # with that of the fork server, which the first training starts
    folder, there = trained(tmp_path / "there", over("a", "b"), SubprocessSupervisors())
    assert there.state == "done" and learner(there) == learner(here)
    assert len(folder.metrics_file.read_text().splitlines()) == config().iterations
    assert all(folder.log_file(gmi).exists() for gmi in range(4))
    assert not (folder.path / remote_hosts.TOKEN).exists()
    assert not children_of(os.getpid()) and open_descriptors() <= before


@two_cores
def test_a_gmi_that_dies_is_named_with_its_node_and_all_others_end(tmp_path):
    killed = []

    def kill(row):
        if not killed:
            (gmi,) = [one for one in processes_of(tmp_path) if f"GMI 3 of {tmp_path}" in " ".join(one.cmdline())]
            killed.append(gmi.pid)
            gmi.kill()

    with pytest.raises(GmiDiedError, match=r"^GMI 3 \(process \d+, node b\) was killed by SIGKILL") as caught:
        trained(tmp_path / "run", over("a", "b"), SubprocessSupervisors(), config=ENDLESS, on_row=kill)
    assert caught.value.gmi_id == 3 and str(killed[0]) in str(caught.value) and "gmi-3.log" in str(caught.value)
    assert processes_of(tmp_path) == [] and not children_of(os.getpid())


class Watched(SubprocessSupervisors):
    """Remembers the agents."""

    def __init__(self):
        super().__init__()
        self.agents = {}

    def start(self, node, order):
        self.agents[node] = super().start(node, order)
        return self.agents[node]


@two_cores
@pytest.mark.parametrize(("number", "said"), [(signal.SIGKILL, "has ended with code -9"), (signal.SIGSTOP, "silent")])
def test_a_node_that_is_lost_is_named_and_nothing_is_left(tmp_path, number, said):
    starter, told, of_b, lost_at = Watched(), [], [], []

    def lose(row):
        if not of_b:
            lost_at.append(time.monotonic())
            agent = psutil.Process(starter.agents["b"].process.pid)
            of_b.extend(child.pid for child in agent.children(recursive=True))
            agent.send_signal(number)

    with pytest.raises(GmiError, match=rf"^GMI [23] \(process \d+, node b: .*{said}.*\) was lost with its node"):
        trained(tmp_path / "run", over("a", "b"), starter, config=ENDLESS, on_row=lose, on_warning=told.append)
    assert time.monotonic() - lost_at[0] < 60 and len(of_b) >= 2
    assert gone(of_b), "the GMIs of a lost node end"
    if number == signal.SIGSTOP:
        assert told and "node b has been silent for" in told[0]


LAUNCHER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from on_two import config, over
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.run.folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
folder.create()
tell = lambda row: print("row", flush=True)
train(resolve(over("a", "b"), config(iterations=10**6), folder), supervisors=SubprocessSupervisors(), on_row=tell)
"""


@two_cores
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_launcher_that_is_killed_and_a_signal_stops_in_order(tmp_path, number):
    here = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    line = [sys.executable, "-c", LAUNCHER, str(tmp_path / "run"), *here]
    with SERVER.popen(line, gmis_are_forked=True, stdout=subprocess.PIPE, env=environment(), text=True) as launcher:
        assert launcher.stdout.readline() == "row\n"
        all_of_it = [child.pid for child in psutil.Process(launcher.pid).children(recursive=True)]
        if number == signal.SIGTERM:  # as systemd sends it, to all at once
            for pid in all_of_it:
                os.kill(pid, number)
            time.sleep(0.3)
        launcher.send_signal(number)
        launcher.wait(60)
    assert len(all_of_it) >= 6 and gone(all_of_it)
    if number == signal.SIGTERM:
        assert (tmp_path / "run" / "state.json").exists() and "stopped" in (tmp_path / "run" / "state.json").read_text()


def test_an_agent_that_does_not_come_is_named(tmp_path):
    broken = SubprocessSupervisors(prefixes={"b": ["false"]})
    with pytest.raises(
        MachineError, match=r"node b has not connected: its supervisor \(process \d+\) has ended with code 1"
    ):
        trained(tmp_path / "run", over("a", "b"), broken)
    assert not children_of(os.getpid())


def test_what_a_node_refuses_is_told_with_its_name(tmp_path):
    layout = over("a", "b")
    large = layout.devices[1].model_copy(
        update={"gmis": tuple(gmi.model_copy(update={"cores": (999,)}) for gmi in layout.devices[1].gmis)}
    )
    with pytest.raises(GmiError, match="node b: the layout uses cores 999") as caught:
        trained(
            tmp_path / "run", layout.model_copy(update={"devices": (layout.devices[0], large)}), SubprocessSupervisors()
        )
    assert caught.value.exit_code == LayoutMismatchError.exit_code and not children_of(os.getpid())


def test_nodes_with_unlike_versions_are_refused_with_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_hosts, "differing", lambda by_node: f"torch of {', '.join(by_node)}")
    with pytest.raises(MachineError, match="different versions: install the same on all\ntorch of a, b"):
        trained(tmp_path / "run", over("a", "b"), SubprocessSupervisors())
    assert not children_of(os.getpid())
