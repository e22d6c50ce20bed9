"""GMIs on another host, with the interface of local ones."""

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gmi_drl.errors import GmiError
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.launch.processes.gmi_process import end_of
from gmi_drl.roles.launcher.connection import encode
from gmi_drl.roles.launcher.protocol import Failed, Stored
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.process_names import is_proxy

GONE_S = 15.0
"""Deadline for a node to end a GMI and its process group."""

Send = Callable[..., None]


class RemoteGMI:
    """See `GMIHandle`. The thread that reads the node's connection calls `add_…`, `set_…` and `store`.

    Args:
        number: The id of the GMI, or the number of a proxy.
        node: The node on which it runs.
        pid: Its process id there.
        log: Its log in the launcher's run folder.
        send: Sends a message to the node.
    """

    def __init__(self, number: int, node: str, pid: int, log: Path, send: Send) -> None:
        self.number, self.pid, self.log, self.where = number, pid, log, f", node {node}"
        self._send = send
        self._messages = deque[bytes]()
        self._code: int | None = None
        self.connection_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
        self.exit_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ended, self._gone, self._closed = threading.Event(), threading.Event(), threading.Lock()
        self._is_closed = False

    def add_message(self, data: bytes) -> None:
        """Add a message for `receive`; an empty one means that the connection has ended."""
        with self._closed:
            if not self._is_closed:
                self._messages.append(data)
                os.eventfd_write(self.connection_fd, 1)

    def add_output(self, data: bytes) -> None:
        """Append output to the log, which its node does not see."""
        with suppress(OSError), self.log.open("ab") as log:
            log.write(data)

    def store(self, write: Callable[[], None], *, notifies: bool = True) -> None:
        """Write into the run folder for the GMI and notify it. If that fails, the GMI counts as failed."""
        try:
            write()
        except Exception as error:
            ours = error if isinstance(error, GmiError) else GmiError(f"{type(error).__name__}: {error}")
            self.add_message(encode(Failed(str(ours), ours.exit_code, blames_peer=False)))
            self.add_message(b"")  # it waits for the notification, so it sends nothing more
        else:
            if notifies:
                self.send(encode(Stored()))

    def set_ended(self, code: int) -> None:
        """Store the exit code that the node has reported."""
        with self._closed:
            if not self._ended.is_set():
                self._code = code
                self._ended.set()
                if not self._is_closed:
                    os.eventfd_write(self.exit_fd, 1)

    def set_lost(self, why: str) -> None:
        """Note that the GMI is lost with its node."""
        self.where += f": {why}"
        self._gone.set()
        if is_proxy(self.number):  # the GMIs of that node report the loss; this one's GMI is on another node
            self._code = LOST
            self._ended.set()
            return
        self.add_message(b"")
        self.set_ended(LOST)

    def set_gone(self) -> None:
        """Note that the node has ended the GMI with its process group."""
        self._gone.set()

    def send(self, message: bytes) -> None:
        """See `GMIHandle`."""
        self._send({"type": "word", "gmi": self.number}, message)

    def receive(self) -> bytes | None:
        """See `GMIHandle`."""
        if not self._messages:
            return None
        if not self._messages[0]:
            return b""  # the connection has ended, and this stays the answer
        os.eventfd_read(self.connection_fd)
        return self._messages.popleft()

    def exit_code(self, wait_s: float) -> int | None:
        """See `GMIHandle`."""
        return self._code if self._ended.wait(max(0.0, wait_s)) else None

    def ask_to_end(self) -> None:
        """See `GMIHandle`."""
        if not self._ended.is_set():
            self._send({"type": "ask_to_end", "gmi": self.number})

    def show_stacks(self) -> None:
        """See `GMIHandle`."""
        if not self._ended.is_set():
            self._send({"type": "show_stacks", "gmi": self.number})

    def end(self) -> None:
        """See `GMIHandle`: the node kills its group."""
        if not self._gone.is_set():
            self._send({"type": "end", "gmi": self.number})
            self._gone.wait(GONE_S)

    def close(self) -> None:
        """See `GMIHandle`."""
        with self._closed:
            if not self._is_closed:
                self._is_closed = True
                os.close(self.connection_fd)
                os.close(self.exit_fd)

    def last_words(self, most: int) -> list[str]:
        """See `GMIHandle`."""
        return end_of(self.log, most)


class RemoteInstances:
    """See `Instances`: each node makes, proves and releases its own.

    Args:
        drains: Whether those of any node drain.
        release: Makes the nodes release the GMIs with these numbers: nodes may have processes with the same ids.
    """

    def __init__(self, drains: bool, release: Callable[[Collection[int]], None]) -> None:
        self.drains, self._release = drains, release

    def environment(self, gmi_id: int) -> dict[str, str]:
        """Empty: the node adds its variables."""
        return {}

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Do nothing: the node of the GMI has checked its device."""

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Do nothing: the node has checked it."""

    def release(self, groups: Mapping[int, int]) -> None:
        """Have the nodes release these GMIs."""
        self._release(groups.keys())


def nothing_shared(gmi_ids: Sequence[int]) -> Mapping[int, Resources]:
    """Empty resources for each GMI: the shared ones are made on the nodes."""
    return dict.fromkeys(gmi_ids, Resources())
