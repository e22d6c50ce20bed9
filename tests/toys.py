"""Parts of another package, for tests."""

import subprocess
from importlib import import_module

from gmi_drl.launch.processes import gmi_process

ENTRY = """
from gmi_drl.layout.backends import BackendEntry
HOW = "as process does, one cut at a time"
ENTRY = BackendEntry("toy", HOW, "toy_backend:Toy", coexists={coexists}, enforces=frozenset({enforces}))
"""
BACKEND = """
import subprocess, sys
from contextlib import contextmanager
from pathlib import Path
from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi import ProcessBackend

DAEMON = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]  # ends when nobody holds its line any more

class Toy(ProcessBackend):
    cuts = alive = most = 0  # of all
    daemons = []

    @contextmanager
    def held(self, layouts):
        with subprocess.Popen(DAEMON, stdin=subprocess.PIPE, start_new_session=True) as self.daemon:
            Toy.daemons.append(self.daemon.pid)
            yield

    @contextmanager
    def cut(self, layout):
        Toy.cuts += 1
        Toy.alive += 1
        Toy.most = max(Toy.most, Toy.alive)
        try:
            with super().cut(layout) as instances:
                yield Clients(instances, self.daemon)
        finally:
            Toy.alive -= 1

class Clients:
    drains = False

    def __init__(self, instances, daemon):
        self.instances, self.daemon = instances, daemon

    def environment(self, gmi_id):
        return self.instances.environment(gmi_id) | {"TOY_DAEMON": str(self.daemon.pid)}

    def prove_on_device(self, gmi_id, pid):
        self.instances.prove_on_device(gmi_id, pid)

    def release(self, groups):
        self.instances.release(groups)

    def prove_attached(self, gmi_id, pid):
        self.instances.prove_attached(gmi_id, pid)
        has = Path(f"/proc/{pid}/environ").read_text().split(chr(0))
        if self.daemon.poll() is not None or f"TOY_DAEMON={self.daemon.pid}" not in has:
            raise LayoutMismatchError(f"GMI {gmi_id} is no client of the daemon {self.daemon.pid}")
"""


def install_backend(install, coexists=False, enforces=()):
    """The backend "toy": a daemon for each claim, whose clients the GMIs are.

    It counts its cuts, those that are `alive` and the `most` that were at once, and lists the pids of its `daemons`.
    Its GMIs are started, not forked, since it reads in /proc with which environment they were.
    """
    gmi_process.subprocess = subprocess  # until the fixture that lets GMIs be forked puts back what was there
    install(
        {"gmi_drl.backends": "toy = toy_entry:ENTRY"},
        {"toy_entry": ENTRY.format(coexists=coexists, enforces=enforces), "toy_backend": BACKEND},
    )
    return import_module("toy_backend").Toy
