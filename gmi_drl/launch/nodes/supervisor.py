"""The supervisor of a node: `python -m gmi_drl.launch.nodes.supervisor NAME`, run by a `SupervisorStarter` only.

It reads its order from the first line of its standard input, `{"launcher": [HOST, PORT], "token": …}`. It ends, with
all that it has started, when its input is closed, or the launcher has gone or was silent for `PATIENCE_S`.
"""

import json
import os
import queue
import selectors
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from gmi_drl.comm.links.control import ControlConnection, Message
from gmi_drl.errors import GmiError
from gmi_drl.launch.nodes.accept_supervisors import introduction
from gmi_drl.launch.nodes.node_host import Host
from gmi_drl.launch.nodes.versions import versions_here
from gmi_drl.processes.signals import leave_to_launcher

CONNECT_S = 30.0
PATIENCE_S = 30.0
"""How long the launcher may be silent: its user may have suspended it for a moment."""


def main() -> int:
    """Work for one launcher until the end. Returns the exit code."""
    leave_to_launcher()
    order = json.loads(sys.stdin.buffer.readline() or b"{}")
    if not order:
        return 1  # the starter has gone
    node, (host, port) = sys.argv[1], order["launcher"]
    try:
        connection = socket.create_connection((host, port), timeout=CONNECT_S)
        cpus = sorted(os.sched_getaffinity(0))
        connection.sendall(introduction(order["token"], node, _machine(), cpus, versions_here()))
    except OSError as error:
        remedy = "nodes must reach it at any port (`gmi-drl doctor --cluster ray`)"
        sys.exit(f"the launcher at {host}, port {port}, cannot be reached from here: {error}: {remedy}")
    connection.settimeout(None)
    NodeSupervisor(node, connection).run()
    return 0


class NodeSupervisor:
    """Executes the launcher's messages on this host, and reports what becomes of the GMIs.

    Args:
        node: The node's name in the layout.
        connection: The connection to the launcher, on which the introduction was sent.
    """

    def __init__(self, node: str, connection: socket.socket) -> None:
        self._address = connection.getsockname()[0]
        self._orders = queue.SimpleQueue[tuple[Message, bytes] | None]()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._connection = ControlConnection(
            connection, self._on_message, lambda why: self.leave(), patience_s=PATIENCE_S
        )
        self._selector = selectors.DefaultSelector()
        self._host = Host(node, self._address, self._selector, self._connection.send)

    def run(self) -> None:
        """Execute messages until the launcher or the input ends, then end everything on this host."""
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)
        threading.Thread(target=self._watch_input, daemon=True).start()
        self._connection.start()
        try:
            while self._step():
                pass
        finally:
            self._host.close()
            self._connection.close()

    def leave(self) -> None:
        """Make `run` end as soon as possible. Called from any thread."""
        self._orders.put(None)
        os.eventfd_write(self._wakeup, 1)

    def _on_message(self, message: Message, data: bytes) -> None:
        self._orders.put((message, data))
        os.eventfd_write(self._wakeup, 1)

    def _watch_input(self) -> None:
        with suppress(OSError):
            while os.read(sys.stdin.fileno(), 1):  # unbuffered: a buffer's lock would be held when Python ends
                pass
        self.leave()

    def _step(self) -> bool:
        """Wait for events and handle them. Returns False when it is time to end."""
        for key, _ in self._selector.select():
            if key.data is not None:
                self._host.forward(*key.data)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        while True:
            try:
                order = self._orders.get_nowait()
            except queue.Empty:
                return True
            if order is None:
                return False
            self._do(*order)

    def _do(self, message: Message, data: bytes) -> None:
        number = message.pop("number", None)  # of a request
        try:
            answer = self._host.do(message, data)
        except GmiError as error:
            answer = {"type": "refused", "message": str(error), "exit_code": error.exit_code}
        except Exception as error:  # the launcher reports it
            answer = {"type": "refused", "message": f"{type(error).__name__}: {error}", "exit_code": 1}
        if answer is not None:
            self._connection.send({**answer, "number": number})


def _machine() -> str:
    """An id of this machine, the same in all of its containers."""
    boot: Any = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return str(boot)


if __name__ == "__main__":
    sys.exit(main())
