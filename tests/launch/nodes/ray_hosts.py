"""A Ray cluster over two hosts, by the commands of several_machines.md: the launcher's place is the first, node a."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from networks import two_hosts

BIN = Path(sys.executable).parent
START_S = 60.0
END_S = 5.0
"""Without its head a node would wait for it for half a minute."""
PORT = 6379


class RayHosts:
    """Two hosts with a Ray node of two CPUs each.

    Attributes:
        daemons: `ray start`, by node: it and its process group.
    """

    def __init__(self, hosts, folder):
        self.hosts, self.folder = hosts, folder
        self.head = f"{self.hosts.addresses['a']}:{PORT}"
        own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}  # Ray leaves some
        self.variables = own | {"HOME": str(folder), "RAY_ADDRESS": self.head, "COLUMNS": "120"}
        self.variables["RAY_worker_niceness"] = "0"  # else GMIs hardly run beside other work
        self.daemons = {}

    def start(self, node, *words):
        """Start Ray's node and wait until it says so."""
        more = ("--num-cpus", "2", "--object-store-memory", str(80 * 2**20), "--disable-usage-stats", "--block")
        address = ("--node-ip-address", self.hosts.addresses[node])
        log = self.folder / f"ray-{node}.log"
        with log.open("w") as output:
            self.daemons[node] = self.popen(
                node, BIN / "ray", "start", *words, *address, *more, stdout=output, stderr=output, process_group=0
            )
        until = time.monotonic() + START_S
        while "Ray runtime started" not in log.read_text():
            assert self.daemons[node].poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)

    def popen(self, node, *command, **more):
        """Start a command on a host."""
        prefix = self.hosts.prefixes[node]
        return subprocess.Popen([*prefix, *map(str, command)], env=self.variables, **more)

    def gmi_drl(self, *words, **more):
        """The command, on the launcher's host."""
        return self.popen("a", BIN / "gmi-drl", *words, **more)


@contextmanager
def ray_hosts(folder):
    """Make them, and take all down again.

    Args:
        folder: For Ray's sockets and logs, whose path must be short.
    """
    with two_hosts() as hosts:
        cluster = RayHosts(hosts, Path(folder))
        try:
            cluster.start("a", "--head", "--port", str(PORT), "--include-dashboard", "false", "--temp-dir", folder)
            cluster.start("b", "--address", cluster.head)
            yield cluster
        finally:
            for daemon in cluster.daemons.values():
                daemon.terminate()
            for daemon in cluster.daemons.values():
                with suppress(subprocess.TimeoutExpired):
                    daemon.wait(END_S)
                with suppress(ProcessLookupError):
                    os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()
