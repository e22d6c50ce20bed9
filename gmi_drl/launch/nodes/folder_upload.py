"""A run folder of a host that does not see that of its launcher: what is written here is carried there."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from types import TracebackType
from typing import Self

from gmi_drl.comm.links.control import Message
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.run.checkpoint import require_free
from gmi_drl.run.folder import RunFolder

CHUNK_BYTES = 2**20
"""Of a file in one message: a second on a link of 10 Mbit/s, so that nobody seems to be silent meanwhile."""

LOG_S = 0.5
"""Between two looks for what GMIs have printed."""

Say = Callable[[Message, bytes], None]


class FolderUpload:
    """Has the paths of the launcher's run folder, elsewhere, for the time of a `with` block.

    Args:
        home: The launcher's run folder.
        say: Tells the launcher.
        begins_with: Bytes of the checkpoint that it will be given.

    Raises:
        MachineError: on entry, if this host has no room for these.
    """

    def __init__(self, home: Path, say: Say, begins_with: int = 0) -> None:
        self._home, self._say, self._begins_with = home, say, begins_with
        self._logs: dict[int, int] = {}  # bytes that were carried
        self._carrying, self._over = threading.Lock(), threading.Event()
        self._teller = threading.Thread(target=self._tell_logs, daemon=True)

    def __enter__(self) -> Self:
        require_free(Path(gettempdir()), self._begins_with, "what the run goes on from needs")
        self.path = Path(mkdtemp(prefix="gmi-drl-run-"))
        self._guard = Reaper()
        self._guard.watch_folder(self.path)
        folder = RunFolder(self.path)
        folder.create()
        folder.meeting.mkdir()
        self._teller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._teller.join()
        for gmi_id in list(self._logs):
            self.carry_log(gmi_id)
        shutil.rmtree(self.path, ignore_errors=True)
        self._guard.close()

    def here(self, path: str) -> Path:
        """Where a path within the launcher's run folder is on this host."""
        return self.path / Path(path).relative_to(self._home)

    def take(self, file: str, data: bytes) -> None:
        """Add to a file what the launcher has of it."""
        target = self.path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as output:
            output.write(data)

    def carry(self, gmi_id: int, file: str) -> None:
        """Send a file, and remove it here."""
        path, told = self.path / file, {"say": "file", "gmi": gmi_id, "file": file}
        for offset, data, is_last in chunks(path):
            self._say({**told, "offset": offset, "is_last": is_last}, data)
        path.unlink()

    def watch_log(self, gmi_id: int) -> None:
        """Carry from now on what a GMI prints."""
        self._logs[gmi_id] = 0

    def carry_log(self, gmi_id: int) -> None:
        """Send what a GMI has printed since the last time. What cannot be read is told in the log instead, once."""
        with self._carrying:
            if gmi_id not in self._logs:
                return
            try:
                with RunFolder(self.path).log_file(gmi_id).open("rb") as log:
                    log.seek(self._logs[gmi_id])
                    while data := log.read(CHUNK_BYTES):
                        self._say({"say": "log", "gmi": gmi_id}, data)
                        self._logs[gmi_id] += len(data)
            except OSError as error:
                del self._logs[gmi_id]
                told = f"[the rest of this log cannot be read on its node: {error}]\n"
                self._say({"say": "log", "gmi": gmi_id}, told.encode())

    def _tell_logs(self) -> None:
        while not self._over.wait(LOG_S):
            for gmi_id in list(self._logs):
                self.carry_log(gmi_id)


def chunks(file: Path) -> Iterator[tuple[int, bytes, bool]]:
    """What is in a file, in pieces for one message each: from which byte on, and whether it is the last."""
    size = file.stat().st_size
    with file.open("rb") as content:
        for offset in range(0, max(1, size), CHUNK_BYTES):
            yield offset, content.read(CHUNK_BYTES), offset + CHUNK_BYTES >= size
