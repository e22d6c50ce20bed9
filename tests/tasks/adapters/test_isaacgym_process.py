"""How a bridge starts and ends, with simulators that fail before they need torch."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import children_of, open_descriptors

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.tasks.adapters import isaacgym_bridge, isaacgym_process
from gmi_drl.tasks.adapters.isaacgym_process import BridgeProcess

ORDER = {"task": "FakeTask", "num_env": 2, "device": "cpu", "seed": 0, "threads": 1}


@pytest.fixture
def isaacgym(tmp_path, monkeypatch):
    """Writes the module `isaacgym` that the bridge imports first."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return (tmp_path / "isaacgym.py").write_text


def start():
    return BridgeProcess(Path(sys.executable), ORDER)


@pytest.mark.parametrize(
    ("module", "kind", "message"),
    [
        ("raise RuntimeError('no PhysX')", GmiError, "failed: RuntimeError: no PhysX"),
        ("import no_such_module", MachineError, "failed: ModuleNotFoundError: No module named 'no_such_module'"),
        ("print('no simulator'); quit()", GmiError, r"(?s)failed: SystemExit.*\| no simulator"),
        ("import os; os.abort()", GmiError, "was killed by signal 6"),
        ("print('so be it'); import os; os._exit(3)", GmiError, r"exited with code 3\n  \| so be it"),
    ],
)
def test_a_failure_at_the_start_is_reported_and_leaves_nothing(isaacgym, module, kind, message):
    isaacgym(module)
    before = open_descriptors()
    with pytest.raises(kind, match=message) as raised:
        start()
    assert type(raised.value) is kind
    assert open_descriptors() == before
    assert not children_of(os.getpid())


def test_a_start_that_hangs_is_killed(isaacgym, monkeypatch):
    isaacgym("import time; print('thinking'); time.sleep(600)")
    receive_hello = BridgeProcess._receive_hello

    def receive_after_a_line(process):
        """A busy machine may take seconds to start Python: the deadline runs from the line on."""
        deadline = time.monotonic() + 60
        while os.fstat(process._log.fileno()).st_size < len("thinking\n"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return receive_hello(process)

    monkeypatch.setattr(BridgeProcess, "_receive_hello", receive_after_a_line)
    monkeypatch.setattr(isaacgym_process, "START_S", 0.2)
    with pytest.raises(GmiError, match=r"did not answer within 0.2 s and was killed\n  \| thinking"):
        start()


def test_what_cannot_be_executed_is_refused(tmp_path):
    (tmp_path / "python").write_text("no program")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(MachineError, match="cannot be run: Exec format error"):
        BridgeProcess(tmp_path / "python", ORDER)


def test_a_bridge_of_another_version_is_refused(isaacgym, monkeypatch):
    isaacgym("")
    monkeypatch.setattr(isaacgym_bridge, "VERSION", 3)  # here, not over there
    with pytest.raises(GmiError, match="has version 2 of the protocol, the order version 3"):
        start()


def test_the_bridge_dies_with_its_gmi(tmp_path):
    (tmp_path / "isaacgym.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    order = ORDER | {"version": isaacgym_bridge.VERSION, "memory": 0}
    gmi = (
        "import json, os, socket, subprocess, sys\n"
        "ours, theirs = socket.socketpair()\n"
        f"order = json.loads({json.dumps(json.dumps(order))})\n"
        "order.update(parent=os.getpid(), line=theirs.fileno())\n"
        f"command = [sys.executable, {isaacgym_bridge.__file__!r}, json.dumps(order)]\n"
        "subprocess.run(command, pass_fds=[theirs.fileno()])\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", gmi], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert not is_gone(pid)
        process.kill()
    deadline = time.monotonic() + 60
    while not is_gone(pid):
        assert time.monotonic() < deadline


def is_gone(pid):
    """Ended, if only as a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True
