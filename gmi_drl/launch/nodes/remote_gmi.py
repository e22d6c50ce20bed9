"""GMIs of another node, as those who supervise GMIs have them."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
"""Until a node must have ended a GMI that it was told to end."""

Say = Callable[..., None]


class RemoteGMI:
    """See `StartedGMI`. What the node says of it comes from the thread that reads the node's wire.

    Args:
        gmi_id: Its id in the layout, or the number of who stands in for one.
        node: Where it runs.
        pid: Of its process there.
        log: Its log, in the launcher's run folder.
        say: Tells the node.
    """

    def __init__(self, gmi_id: int, node: str, pid: int, log: Path, say: Say) -> None:
        self.pid, self.log, self.where = pid, log, f", node {node}"
        self._id, self._say = gmi_id, say
        self._words = deque[bytes]()
        self._code: int | None = None
        self.line_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
        self.exit_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ended, self._gone, self._closed = threading.Event(), threading.Event(), threading.Lock()
        self._is_closed = False

    def said(self, data: bytes) -> None:
        """A message has come; an empty one says that the line has ended."""
        with self._closed:
            if not self._is_closed:
                self._words.append(data)
                os.eventfd_write(self.line_fd, 1)

    def printed(self, data: bytes) -> None:
        """Something for its log, which its node does not see."""
        with suppress(OSError), self.log.open("ab") as log:
            log.write(data)

    def kept(self, keep: Callable[[], None], *, tells: bool = True) -> None:
        """Do what it asks the keeper of the run folder for, and tell it; where that fails the GMI does."""
        try:
            keep()
        except Exception as error:
            ours = error if isinstance(error, GmiError) else GmiError(f"{type(error).__name__}: {error}")
            self.said(encode(Failed(str(ours), ours.exit_code, blames_peer=False)))
            self.said(b"")  # it waits for an answer, so it says no last word itself
        else:
            if tells:
                self.say(encode(Stored()))

    def has_ended(self, code: int) -> None:
        """The node has seen its end."""
        with self._closed:
            if not self._ended.is_set():
                self._code = code
                self._ended.set()
                if not self._is_closed:
                    os.eventfd_write(self.exit_fd, 1)

    def was_lost(self, why: str) -> None:
        """Its node is lost, and it with that."""
        self.where += f": {why}"
        self._gone.set()
        if is_proxy(self._id):  # the GMIs of that node tell of it; the layout has this one's on another
            self._code = LOST
            self._ended.set()
            return
        self.said(b"")
        self.has_ended(LOST)

    def is_gone(self) -> None:
        """The node has ended it, with all that it has started."""
        self._gone.set()

    def say(self, message: bytes) -> None:
        """See `StartedGMI`."""
        self._say({"say": "word", "gmi": self._id}, message)

    def receive(self) -> bytes | None:
        """See `StartedGMI`."""
        if not self._words:
            return None
        if not self._words[0]:
            return b""  # the line has ended, and stays so
        os.eventfd_read(self.line_fd)
        return self._words.popleft()

    def exit_code(self, wait_s: float) -> int | None:
        """See `StartedGMI`."""
        return self._code if self._ended.wait(max(0.0, wait_s)) else None

    def ask_to_end(self) -> None:
        """See `StartedGMI`."""
        if not self._ended.is_set():
            self._say({"say": "ask_to_end", "gmi": self._id})

    def end(self) -> None:
        """See `StartedGMI`: the node kills its group."""
        if not self._gone.is_set():
            self._say({"say": "end", "gmi": self._id})
            self._gone.wait(GONE_S)

    def close(self) -> None:
        """See `StartedGMI`."""
        with self._closed:
            if not self._is_closed:
                self._is_closed = True
                os.close(self.line_fd)
                os.close(self.exit_fd)

    def last_words(self, most: int) -> list[str]:
        """See `StartedGMI`."""
        return end_of(self.log, most)


class RemoteInstances:
    """See `Instances`: the nodes make, prove and release theirs by themselves.

    Args:
        drains: Whether those of a node do.
        release: Tells the nodes of GMIs that are to be released, by their processes.
    """

    def __init__(self, drains: bool, release: Callable[[Sequence[int]], None]) -> None:
        self.drains, self._release = drains, release

    def environment(self, gmi_id: int) -> dict[str, str]:
        """Nothing is known of it here."""
        return {}

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Its node has."""

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Its node has."""

    def release(self, groups: Sequence[int]) -> None:
        """See `Instances`."""
        self._release(groups)


def nothing_shared(gmi_ids: Sequence[int]) -> Mapping[int, Resources]:
    """What GMIs share is made on their nodes."""
    return dict.fromkeys(gmi_ids, Resources())
