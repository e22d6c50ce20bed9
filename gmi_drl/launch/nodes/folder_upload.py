"""A local copy of the run folder, for a host that does not see the launcher's: what is written here is sent there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import gettempdir
from types import TracebackType
from typing import Self

from gmi_drl.comm.links.control import Message
from gmi_drl.launch.processes.temporary_folder import temporary_folder
from gmi_drl.run.checkpoint import require_free
from gmi_drl.run.folder import RunFolder

CHUNK_BYTES = 2**20
"""Bytes of a file in one message: a second at 10 Mbit/s, so that heartbeats are not delayed for long."""

LOG_S = 0.5
"""Period at which logs are sent."""

Send = Callable[[Message, bytes], None]


class FolderUpload:
    """A temporary folder in place of the launcher's run folder, for the time of a `with` block.

    Args:
        home: The launcher's run folder.
        send: Sends a message to the launcher.
        begins_with: The size in bytes of the checkpoints that it will get.

    Raises:
        MachineError: on entry, if this host has no room for the checkpoints.
    """

    def __init__(self, home: Path, send: Send, begins_with: int = 0) -> None:
        self._run_folder, self._send, self._initial_bytes = home, send, begins_with
        self._logs: dict[int, int] = {}  # bytes that were sent
        self._sending_logs, self._over = threading.Lock(), threading.Event()
        self._log_thread = threading.Thread(target=self._send_logs, daemon=True)

    def __enter__(self) -> Self:
        require_free(Path(gettempdir()), self._initial_bytes, "what the run goes on from needs")
        with ExitStack() as life:
            self.path = life.enter_context(temporary_folder("gmi-drl-run-"))
            folder = RunFolder(self.path)
            folder.create()
            folder.rendezvous_folder.mkdir()
            self._life = life.pop_all()
        self._log_thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._log_thread.join()
        for gmi_id in list(self._logs):
            self.send_log(gmi_id)
        self._life.close()

    def here(self, path: str) -> Path:
        """The local path for a path within the launcher's run folder."""
        return self.path / Path(path).relative_to(self._run_folder)

    def take(self, file: str, data: bytes) -> None:
        """Append a piece to a file, as the launcher sends it."""
        target = self.path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as output:
            output.write(data)

    def send_file(self, gmi_id: int, file: Path) -> None:
        """Send a file that a GMI has written here, and remove it."""
        message = {"type": "file", "gmi": gmi_id, "file": str(file.relative_to(self.path))}
        for offset, data, is_last in chunks(file):
            self._send({**message, "offset": offset, "is_last": is_last}, data)
        file.unlink()

    def watch_log(self, gmi_id: int) -> None:
        """Send the log of a GMI from now on. Its successor goes on in the same file."""
        self._logs.setdefault(gmi_id, 0)

    def send_log(self, gmi_id: int) -> None:
        """Send what a GMI has printed since the last call. If the log cannot be read, send that instead, once."""
        with self._sending_logs:
            if gmi_id not in self._logs:
                return
            try:
                with RunFolder(self.path).log_file(gmi_id).open("rb") as log:
                    log.seek(self._logs[gmi_id])
                    while data := log.read(CHUNK_BYTES):
                        self._send({"type": "log", "gmi": gmi_id}, data)
                        self._logs[gmi_id] += len(data)
            except OSError as error:
                del self._logs[gmi_id]
                note = f"[the rest of this log cannot be read on its node: {error}]\n"
                self._send({"type": "log", "gmi": gmi_id}, note.encode())

    def _send_logs(self) -> None:
        while not self._over.wait(LOG_S):
            for gmi_id in list(self._logs):
                self.send_log(gmi_id)


def chunks(file: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the content of a file in pieces that fit into a message: (offset, data, whether it is the last)."""
    size = file.stat().st_size
    with file.open("rb") as content:
        for offset in range(0, max(1, size), CHUNK_BYTES):
            yield offset, content.read(CHUNK_BYTES), offset + CHUNK_BYTES >= size
