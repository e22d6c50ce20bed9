"""The launcher's end of the process that uses Ray for it (`process.py`)."""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.nodes.supervisor_starters import END_S
from gmi_drl.launch.processes.gmi_handle import how_it_ended
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.layout.layout import Layout
from gmi_drl.processes.signals import held_back

READY_S = 180.0
"""Deadline for room for a layout: a cluster is started or joined, and nodes and resources in use are waited for."""
TAKEN_S = 30.0
"""Deadline for Ray to accept a supervisor; `accept.py` waits until it has connected."""
MORE_S = 2.0
"""Additional time for a response to arrive."""
LEFT_S = 5.0
"""Deadline for the driver to leave or shut down its cluster, which it cannot while Ray's head is gone."""


class RaySupervisorHandle:
    """A supervisor on a node of the cluster. See `SupervisorHandle`."""

    def __init__(self, driver: "RayClient", number: int) -> None:
        self._driver, self._number = driver, number

    def why_ended(self) -> str | None:
        """How the supervisor ended, with its last lines of output; None while it runs.

        Ray reports the death of a node after 8 to 22 s.
        """
        return self._driver.ended.get(self._number) or self._driver.why_ended()

    def end(self, wait_s: float = END_S) -> None:
        """Make the supervisor end, and kill it with its actor after `wait_s`. May be called twice."""
        with suppress(GmiError):  # a driver that has ended has taken its actors along
            self._driver.request(
                {"type": "end", "supervisor": self._number, "wait_s": wait_s}, "ended", wait_s + MORE_S
            )


class RayClient:
    """Starts the process that uses Ray, and sends it requests. See `SupervisorStarter`.

    Args:
        layout: The layout for which `ray_supervisors` reserves nodes.

    Attributes:
        address: The launcher's address, as the nodes of the cluster see it.
        ended: How supervisors have ended, by the number of the request that started them: a node may have several in
            turn.

    Raises:
        MachineError: if Ray is not installed or cannot be reached, or the resources of the layout are in use.
        LayoutMismatchError: if the cluster's nodes are too few or too small for the layout.
    """

    def __init__(self, layout: Layout) -> None:
        self.address, self.ended = "", dict[int, str]()
        self._sent, self._responses = 0, queue.SimpleQueue[dict[str, Any] | None]()
        self._reaper = Reaper()
        with held_back():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gmi_drl.launch.ray.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            self._reaper.watch(self._process.pid)
        threading.Thread(target=self._receive, daemon=True).start()
        try:
            self.address = self.request({"layout": layout.model_dump_json()}, "ready", READY_S)["address"]
        except BaseException:
            self.close()
            raise

    def start(self, node: str, order: bytes) -> RaySupervisorHandle:
        """See `SupervisorStarter`."""
        response = self.request({"type": "start", "node": node, "order": order.decode()}, "started", TAKEN_S)
        return RaySupervisorHandle(self, response["number"])

    def why_ended(self) -> str | None:
        """How the driver process ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else f"the process that uses Ray ({self._process.pid}) {how_it_ended(code)}"

    def close(self) -> None:
        """Make the driver leave the cluster and end; kill it after `LEFT_S`."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LEFT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reaper.close()

    def request(self, message: dict[str, Any], wanted: str, wait_s: float) -> dict[str, Any]:
        """Send a message and wait for its response.

        Raises:
            GmiError: the driver's error, with its exit code.
            MachineError: if the driver has ended, or does not respond in time.
        """
        assert self._process.stdin is not None
        self._sent += 1
        with suppress(OSError):  # `_receive` sees its end
            self._process.stdin.write(f"{json.dumps({**message, 'number': self._sent})}\n".encode())
            self._process.stdin.flush()
        response = self._response(wanted, wait_s)
        if response["type"] != wanted:
            error = GmiError(response["message"])
            error.exit_code = response["exit_code"]
            raise error
        return response

    def _response(self, wanted: str, wait_s: float) -> dict[str, Any]:
        """The response to the last request. Late ones to earlier requests are dropped."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                response = self._responses.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise MachineError(f"Ray has not {wanted} within {wait_s:.0f} s: is its head gone?") from None
            if response is None:
                self._responses.put(None)  # for the next request
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(MORE_S)
                raise MachineError(str(self.why_ended()))
            if response["number"] == self._sent:
                return response

    def _receive(self) -> None:
        """Read all messages of the driver. Kill it if one is malformed, as after a crash while it wrote."""
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                message = json.loads(line)
                if message["type"] == "ended_by_itself":
                    self.ended[message["supervisor"]] = message["why"]
                else:
                    self._responses.put(message)
        except (ValueError, KeyError, TypeError):
            self._process.kill()
        finally:
            self._responses.put(None)


@contextmanager
def ray_client(layout: Layout) -> Iterator[RayClient]:
    """Reserve nodes of a cluster for a layout for the time of a `with` block. Yields what starts supervisors there."""
    client = RayClient(layout)
    try:
        yield client
    finally:
        client.close()
