"""Agents and runs on a real Ray cluster: two node daemons on this machine, one cluster for all tests of this file."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from conftest import children_of, environment, two_cores

from gmi_drl.errors import InUseError, LayoutMismatchError, MachineError, UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.launch.ray import report, supervisors
from gmi_drl.launch.ray.actor import SupervisorActor
from gmi_drl.launch.ray.client import ray_client
from gmi_drl.launch.ray.cluster import connected, nodes
from gmi_drl.launch.ray.describe import ASSUMED, described_cluster
from gmi_drl.launch.ray.network import measured_network
from gmi_drl.launch.ray.placement import Share, assigned_in_time, placed
from gmi_drl.launch.ray.supervisors import ray_supervisors
from gmi_drl.launch.run_role import run_role
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.launch.nodes.on_two import over

ray = pytest.importorskip("ray", reason="needs the extra [ray]")

DEADLINE_S = 60.0
TOY_AGENT = """
import json, os, sys
order = json.loads(sys.stdin.readline())
if "exit" in order:
    print("no room left", flush=True)
    sys.exit(order["exit"])
facts = {"pid": os.getpid(), "ppid": os.getppid(), "rays": [name for name in os.environ if name.startswith("RAY_")]}
open(order["facts"] + ".new", "w").write(json.dumps(facts))
os.rename(order["facts"] + ".new", order["facts"])
sys.stdin.read()
open(order["facts"] + ".ended", "w").close()
"""


def arguments_of(node):
    return ["-c", TOY_AGENT]


def line(order):
    return f"{json.dumps(order)}\n".encode()


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of two CPUs each, and this process a part of it."""
    from ray.cluster_utils import Cluster

    folders = tempfile.TemporaryDirectory(prefix="gmi-", dir="/tmp", ignore_cleanup_errors=True)  # paths of sockets
    with folders as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_TMPDIR", folder)
        claims = Path(folder) / "claims"  # Ray's processes have what is set now: later claims of tests they do not see
        claims.mkdir()
        patch.setenv("GMI_DRL_CLAIMS", str(claims))
        sizes = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 80 * 2**20, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=sizes)
        try:
            made.add_node(**sizes)
            patch.setenv("RAY_ADDRESS", made.address)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture
def joined(cluster):
    with connected():
        yield


def layout_over(*names):
    gmis = enumerate(names)
    return Layout(
        devices=tuple(
            Device(node=name, kind="cpu", gmis=(GMI(id=number, roles=("agent",), cores=(0, 1)),))
            for number, name in gmis
        )
    )


def waited_for(path):
    until = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} was not written within {DEADLINE_S:g} s"
        time.sleep(0.02)
    return path.read_text()


def has_gone(pid):
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(pid).wait(DEADLINE_S)
    return not psutil.pid_exists(pid)


def free_cpus():
    return ray.available_resources().get("CPU", 0)


def waited_until_free(count):
    until = time.monotonic() + DEADLINE_S
    while free_cpus() != count and time.monotonic() < until:
        time.sleep(0.05)
    return free_cpus()


def test_an_agent_runs_on_each_node_and_ends_with_its_actor(joined, tmp_path):
    with ray_supervisors(layout_over("a", "b"), arguments_of) as starter:
        started = {name: starter.start(name, line({"facts": str(tmp_path / name)})) for name in ("a", "b")}
        facts = {name: json.loads(waited_for(tmp_path / name)) for name in started}
        assert len({agent.node.id for agent in started.values()}) == 2
        assert facts["a"]["rays"] == []
        assert psutil.Process(facts["a"]["ppid"]).name().startswith("ray::")
        os.kill(facts["a"]["ppid"], signal.SIGKILL)  # the actor: its pipe to the agent closes
        assert has_gone(facts["a"]["pid"])
        started["a"].end()
        assert "Ray lost the supervisor" in started["a"].how_it_ended()
        started["b"].end()
        started["b"].end()
        assert "exited with code 0" in started["b"].how_it_ended()
        assert has_gone(facts["b"]["pid"]) and (tmp_path / "b.ended").exists()
    assert waited_until_free(4) == 4


def test_an_agent_that_ends_tells_its_code_and_last_words(joined):
    with ray_supervisors(layout_over(None), arguments_of) as starter:
        agent = starter.start(None, line({"exit": 3}))
        agent.end()
        ended, words = agent.how_it_ended().splitlines()
        assert ended.endswith("exited with code 3") and words == "  no room left"


def test_a_node_without_what_it_takes_tells_why_no_agent_started(joined, monkeypatch):
    class Absent(SupervisorActor):
        """Of a module that workers cannot import."""

    Absent.__module__, Absent.__qualname__ = "only_here", "Absent"
    only_here = ModuleType("only_here")
    only_here.Absent = Absent
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    monkeypatch.setattr("gmi_drl.launch.ray.supervisors.SupervisorActor", Absent)
    with ray_supervisors(layout_over(None), arguments_of) as starter:
        agent = starter.start(None, line({"exit": 3}))
        why = agent.how_it_ended()
        agent.end()
    assert why.startswith("Ray started no supervisor on ") and "No module named 'only_here'. gmi-drl must be" in why


def test_what_others_use_is_named_after_the_deadline(joined):
    first, second = nodes()
    with placed({"x": Share(2, 0)}, {"x": first}):
        shares, on = {"x": Share(1, 0), "y": Share(1, 0)}, {"x": first, "y": second}
        lacks = pytest.raises(InUseError, match=f"1 CPUs of {first.name}, which has 0 CPUs free within 0.5 s")
        with lacks, placed(shares, on, wait_s=0.5):
            pass
    with placed(shares, on):
        pass


def test_nodes_of_one_host_have_names_of_their_own(joined):
    first, second = nodes()
    assert first.name != second.name and (first.cpus, second.cpus) == (2, 2)
    assert (first.is_here, second.is_here) == (True, False)


def test_every_node_reports_its_versions_and_reaches_the_launcher(joined):
    reports = report.report(nodes())
    assert [one.fault for one in reports] == ["", ""] and all(one.reaches for one in reports)
    assert reports[0].versions["python"] and reports[0].versions == reports[1].versions


def test_the_network_is_measured_between_nodes(cluster):
    made = described_cluster()
    assert made.count == 2 and made.network != ASSUMED
    assert made.network.gbit_per_s > 0 and made.network.round_trip_ms > 0


def test_of_one_node_there_is_no_network_to_measure(joined):
    assert measured_network(nodes()[:1]) is None


def test_doctor_has_a_row_for_each_node(cluster, command_line):
    code, out, err = command_line("doctor", "--cluster", "ray", "--format", "json")
    rows = json.loads(out)["checks"]
    assert code == 0 and [row["verdict"] for row in rows] == ["ok", "ok"], err
    assert all("2 CPUs" in row["seen"] and "torch" in row["seen"] for row in rows)


def test_a_cluster_that_is_not_ours_stays_up_and_keeps_our_signals(cluster):
    before = signal.getsignal(signal.SIGTERM)
    with connected():
        assert len(nodes()) == 2
    assert signal.getsignal(signal.SIGTERM) == before
    assert not ray.is_initialized()
    with connected():
        assert len(nodes()) == 2


@pytest.mark.parametrize(
    ("address", "error", "words"),
    [
        ("ray://127.0.0.1:10001", UsageError, "start the launcher on one of its nodes"),
        ("127.0.0.1:1", MachineError, "no Ray cluster answers at RAY_ADDRESS=127.0.0.1:1"),
    ],
)
def test_an_address_that_is_none_is_refused(monkeypatch, address, error, words):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(error, match=words), connected():
        pass


TINY = ("--iterations", 2, "--set", "learner.epochs=2", "--set", "learner.horizon=4", "--set", "learner.minibatches=2")


def learnt(run):
    """The digest of what has been learnt."""
    newest = max((Path(run) / "checkpoints").iterdir())
    return json.loads((newest / "checkpoint.json").read_text())["learner"]


@two_cores
def test_a_training_on_two_nodes_learns_what_it_learns_on_two_devices_here(cluster, command_line, tmp_path):
    for launcher, layout in {"local": over(None, None, gmis=1), "ray": over("a", "b", gmis=1)}.items():
        Path("layout.yaml").write_text(dump_yaml(layout))
        code, out, err = command_line(
            "train", "layout.yaml", *TINY, "--launcher", launcher, "--run-dir", launcher, "--format", "json"
        )
        assert code == 0, err
        assert json.loads(out)["state"] == "done"
    assert learnt(tmp_path / "ray") == learnt(tmp_path / "local")
    assert (tmp_path / "ray" / "logs" / "gmi-1.log").exists()
    assert [one for one in children_of(os.getpid()) if "gmi_drl" in " ".join(one.cmdline())] == []
    code, _, err = command_line("train", "--resume", "ray", "--iterations", 3)
    assert code == 5 and "give --launcher ray" in err


def test_a_node_has_one_agent_after_another_and_each_its_own_end(cluster):
    """As a run that is restarted has: the next one is not taken for the one that has ended."""
    order = json.dumps({"launcher": ["127.0.0.1", 1], "token": "none"}).encode() + b"\n"  # whom nobody can reach
    with ray_client(over("a", "b", gmis=1)) as driver:
        first = driver.start("a", order)
        assert "cannot be reached" in waited_until_gone(first)
        first.end()
        second = driver.start("a", order)
        assert second.why_ended() is None  # it takes a while to import what it needs
        assert "cannot be reached" in waited_until_gone(second)
        second.end()


def waited_until_gone(agent):
    until = time.monotonic() + DEADLINE_S
    while agent.why_ended() is None and time.monotonic() < until:
        time.sleep(0.05)
    return agent.why_ended()


def test_a_role_runs_on_the_node_that_ray_gives(joined, tmp_path):
    (tmp_path / "role.py").write_text(
        "import os\nfrom gmi_drl import DRL_role\n\n\nclass Where(DRL_role):\n"
        "    def GMI_run(self):\n        return os.getppid()\n"
    )
    layout = Layout(devices=(Device(kind="cpu", gmis=(GMI(id=0, roles=("agent",), cores=(0,)),)),))
    (parent,) = run_role(f"{tmp_path}/role.py:Where", layout, run_dir=tmp_path / "run", launcher="ray").values()
    assert parent != os.getpid() and not psutil.pid_exists(parent)


def test_a_layout_without_room_is_refused(joined, monkeypatch):
    monkeypatch.setattr(supervisors, "assigned_in_time", partial(assigned_in_time, wait_s=0.0))
    without_room = pytest.raises(LayoutMismatchError, match="no node of the Ray cluster is left for c")
    with without_room, ray_supervisors(over("a", "b", "c")):
        pass


def test_a_cluster_that_does_not_answer_is_an_error_and_makes_no_folder(cluster, command_line, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    (tmp_path / "layout.yaml").write_text(dump_yaml(over("a", "b")))
    code, _, err = command_line("train", "layout.yaml", *TINY, "--launcher", "ray", "--run-dir", "run")
    assert code == 4 and "no Ray cluster answers at RAY_ADDRESS=127.0.0.1:1" in err
    assert not (tmp_path / "run").exists()


KILLED_LAUNCHER = """
import os, psutil, ray, signal
from gmi_drl.launch.ray.cluster import connected
with connected():
    print(ray._private.worker.global_worker.node.get_temp_dir_path())
    print(*(daemon.pid for daemon in psutil.Process().children(recursive=True)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_of_our_own_ends_with_a_launcher_that_is_killed():
    variables = environment() | {"RAY_ADDRESS": "local"}
    launcher = subprocess.run(
        [sys.executable, "-c", KILLED_LAUNCHER], stdout=subprocess.PIPE, text=True, env=variables, timeout=DEADLINE_S
    )
    folder, *daemons = launcher.stdout.split()
    daemons = [int(pid) for pid in daemons]
    assert launcher.returncode == -signal.SIGKILL and len(daemons) > 4
    until = time.monotonic() + 30  # Ray's own agents would stay for 90 s
    while time.monotonic() < until and (any(map(psutil.pid_exists, daemons)) or Path(folder).exists()):
        time.sleep(0.1)
    assert not any(map(psutil.pid_exists, daemons)) and not Path(folder).exists()


def set_of_folders():
    return set(Path("/tmp").glob("gmi-ray-*"))


def test_a_cluster_of_our_own_ends_with_its_block(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    folders, others = set_of_folders(), set(psutil.Process().children(recursive=True))
    with connected():
        (only,) = nodes()
        daemons = set(psutil.Process().children(recursive=True)) - others
        assert only.is_here and daemons
        assert ray.get(ray.remote(lambda: os.nice(0)).remote(), timeout=DEADLINE_S) == os.nice(0)
    assert all(has_gone(daemon.pid) for daemon in daemons)
    assert set_of_folders() == folders
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ
