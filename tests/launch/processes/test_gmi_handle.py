"""GMIs that are started in another way than ours: by a shell, which gives them their orders."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest
from conftest import children_of, open_descriptors, tiny_config, tiny_layout, two_cores

from gmi_drl.errors import GmiDiedError
from gmi_drl.gmi import claimed
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.launch.processes.gmi_handle import UNKNOWN, how_it_ended
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.shared_resources import shared_resources
from gmi_drl.roles.launcher.connection import MAX_BYTES, socket_pair
from gmi_drl.roles.launcher.protocol import Report
from gmi_drl.run.folder import RunFolder

ROLE = """
import os
import time
import torch
import gmi_drl as GMI_DRL

class Sum(GMI_DRL.DRL_role):
    def GMI_run(self, suicide):
        if suicide and self.GMI_id == 1:
            print("how sad", flush=True)
            os.kill(os.getpid(), 9)
        self.mgr.report({"path": os.environ["TOLD_BY"]})
        data = torch.full((3,), 1.0 + self.GMI_id)
        self.GMI_collective(data)
        return data.tolist()
"""
SCRIPT = 'exec "$0" -P -m gmi_drl.roles.main 0 <"$1"'


class ByShell:
    """See `GMIHandle`."""

    where = ""

    def __init__(self, order, environment, log, resources):
        self.log, self.orders = log, log.with_suffix(".order")
        self.line, theirs = socket_pair()
        self.line.setblocking(False)
        whole = {**order, "launcher": theirs.fileno(), "resources": resources.to_order(), "parent": os.getpid()}
        self.orders.write_text(json.dumps(whole))
        with theirs, log.open("wb") as output:
            self.process = subprocess.Popen(
                ["sh", "-c", SCRIPT, sys.executable, str(self.orders)],
                env=environment | {"TOLD_BY": "a shell"},
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno(), *resources.descriptors],
            )
        self.pid, self.exit_fd, self.connection_fd = (
            self.process.pid,
            os.pidfd_open(self.process.pid),
            self.line.fileno(),
        )

    def send(self, message):
        with suppress(OSError):
            self.line.send(message)

    def receive(self):
        try:
            return self.line.recv(MAX_BYTES)
        except BlockingIOError:
            return None

    def exit_code(self, wait_s):
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(max(0, wait_s))

    def ask_to_end(self):
        self.process.kill()

    def show_stacks(self):
        pass

    def end(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.line.close()
        os.close(self.exit_fd)

    def last_words(self, most):
        return [f"{most} at most", self.log.read_text().strip()]


@contextmanager
def started_by_shell(tmp_path, suicide):
    (tmp_path / "role.py").write_text(ROLE)
    folder, layout = RunFolder(tmp_path / "run"), tiny_layout(2, reduction="MPR-gloo")
    folder.create()
    folder.write_setup(layout, tiny_config())
    roles, params = dict.fromkeys((0, 1), f"{tmp_path / 'role.py'}:Sum"), {"suicide": suicide}
    with (
        claimed([layout], "a test") as claim,
        claim.cut(layout) as instances,
        shared_resources(layout, 64) as resources,
        GMIProcesses(Job(layout, tiny_config(), folder, roles, 64), params, instances, ByShell, resources, {}) as gmis,
    ):
        yield gmis


@two_cores
def test_gmis_may_be_started_in_another_way(tmp_path):
    before = open_descriptors()
    with started_by_shell(tmp_path, suicide=False) as gmis:
        heard = [event.message for event in gmis.events() if isinstance(event, GMIMessage)]
    assert heard == 2 * [Report({"path": "a shell"})] and gmis.results == {0: [3, 3, 3], 1: [3, 3, 3]}
    assert open_descriptors() <= before and not children_of(os.getpid())


@two_cores
def test_how_they_end_is_told_by_what_has_started_them(tmp_path):
    with started_by_shell(tmp_path, suicide=True) as gmis, pytest.raises(GmiDiedError) as caught:
        for _ in gmis.events():
            pass
    assert (caught.value.gmi_id, caught.value.exit_code_of_gmi) == (1, -signal.SIGKILL)
    assert str(caught.value).startswith("GMI 1 (process ") and "was killed by SIGKILL" in str(caught.value)
    assert str(caught.value).endswith("gmi-1.log\n  | 5 at most\n  | how sad") and not children_of(os.getpid())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, "has closed its connection but still runs"),
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (UNKNOWN, "has ended with an unknown exit code (SIGCHLD is ignored here)"),
        (-signal.SIGTERM, "was killed by SIGTERM"),
        (-signal.SIGKILL, "was killed by SIGKILL (by a user, or for lack of memory)"),
        (-signal.SIGRTMIN - 2, f"was killed by signal {signal.SIGRTMIN + 2} (SIGRTMIN+2)"),
    ],
)
def test_how_a_gmi_ended_is_a_sentence(code, told):
    assert how_it_ended(code) == told
