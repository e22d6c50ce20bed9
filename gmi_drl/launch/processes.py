"""The processes of a layout: started together, watched together, ended together."""

import json
import math
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gmi_drl.comm.segment import create_segment
from gmi_drl.errors import GmiError
from gmi_drl.gmi import Backend
from gmi_drl.layout import Layout
from gmi_drl.roles.channel import MAX_BYTES, Message, channel_pair, decode, encode
from gmi_drl.run.folder import RunFolder

TICK_S = 0.2  # how often a wait looks up to see signals and deadlines
START_S = 120.0  # until a process must have imported torch and reported
FIRST_ROW_S = 1200.0  # until the first row: simulators load, and kernels are compiled, for minutes
GRACE_S = 3.0  # between asking a process to end and killing it
BLAME_S = 2.0  # how long after a GMI's complaint about a peer the peer's own end is waited for
LOG_LINES = 5


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    socket: socket.socket
    log: Path
    is_ready: bool = False
    is_done: bool = False


class GMIProcesses:
    """One process per GMI, each with its environment complete, its log, its shared memory and one line to here.

    A `with` block is their life: however it ends, no process and no segment is left.

    Args:
        layout: What to start; its file in the run folder is what the processes read.
        role: Location of the role, `FILE.py:CLASS` or `MODULE:CLASS`.
        params: Keyword arguments of `GMI_run` (JSON).
        folder: The run folder.
        backend: Open, for this layout.
        hang_s: Deadline of every wait between GMIs.
        slot_bytes: Shared memory per GMI and group; longer vectors are reduced in pieces.
    """

    def __init__(
        self,
        layout: Layout,
        role: str,
        params: Mapping[str, Any],
        folder: RunFolder,
        backend: Backend,
        *,
        hang_s: float,
        slot_bytes: int,
    ) -> None:
        self.layout, self.folder, self.backend = layout, folder, backend
        self.results: dict[int, Any] = {}
        self._order = {"role": role, "params": dict(params), "layout": str(folder.layout_file), "hang_s": hang_s}
        self._slot_bytes = slot_bytes
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._has_told = False  # a row, of any GMI

    def __enter__(self) -> Self:
        segments: dict[str, int] = {}
        try:
            shutil.rmtree(self.folder.meeting, ignore_errors=True)  # of a launcher that was killed
            self.folder.meeting.mkdir()
            segments |= self._make_segments()
            for gmi in self.layout.gmis:
                self._start(gmi.id, segments)
        except BaseException:
            self.end()
            raise
        finally:
            for descriptor in segments.values():
                os.close(descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def say(self, gmi_id: int, word: str) -> None:
        """Send a word to one GMI; one that has ended does not hear it."""
        with suppress(OSError):
            self._children[gmi_id].socket.send(encode({"word": word}))

    def messages(self, silence_s: float = math.inf) -> Iterator[tuple[int, Message]]:
        """Rows as they come, with the GMI's id, until all GMIs are done; `(-1, {})` at least every `TICK_S`.

        Args:
            silence_s: How long all GMIs together may say nothing; `START_S` at least, before the first row
                `FIRST_ROW_S`.

        Raises:
            GmiError: when a GMI fails, dies, or none is heard of in time; it names the GMI and its log.
        """
        heard = time.monotonic()
        while not all(child.is_done for child in self._children.values()):
            for gmi_id, message in self._receive(TICK_S):
                heard = time.monotonic()
                if message.get("kind") == "row":
                    self._has_told = True
                    yield gmi_id, message
                    heard = time.monotonic()  # what the caller took its time for is not the GMIs' silence
            self._check_silence(time.monotonic() - heard, silence_s)
            yield -1, {}

    def _check_silence(self, silent_s: float, silence_s: float) -> None:
        late = [gmi_id for gmi_id, child in self._children.items() if not child.is_ready]
        if late and silent_s > START_S:
            raise GmiError(f"GMI {late[0]} has not started within {START_S:.0f} s{self._see_log(late[0])}")
        if silent_s > max(silence_s, START_S if self._has_told else FIRST_ROW_S):
            raise GmiError(
                f"no GMI has been heard of for {silent_s:.0f} s: see the logs in {self.folder.log_file(0).parent}"
            )

    def end(self) -> None:
        """End every process: those that are done by themselves, the others politely, then surely."""
        deadline = time.monotonic() + GRACE_S
        for child in self._children.values():
            if not child.is_done:
                child.process.terminate()
        for child in self._children.values():
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        for child in self._children.values():
            child.socket.close()
        self._selector.close()
        shutil.rmtree(self.folder.meeting, ignore_errors=True)

    def _make_segments(self) -> dict[str, int]:
        groups = self.layout.groups if self.layout.reduction == "MPR-shm" else {}
        return {
            name: create_segment(len(members), self._slot_bytes) for name, members in groups.items() if len(members) > 1
        }

    def _start(self, gmi_id: int, segments: dict[str, int]) -> None:
        ours, theirs = channel_pair()
        with theirs:
            order = self._order | {
                "gmi": gmi_id,
                "run_folder": str(self.folder.path),
                "meeting": str(self.folder.meeting),
                "segments": segments,
                "channel": theirs.fileno(),
                "parent": os.getpid(),
            }
            log = self.folder.log_file(gmi_id)
            with log.open("ab") as output:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "gmi_drl.roles.child", json.dumps(order)],
                    env=os.environ | self.backend.environment(gmi_id),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno(), *segments.values()],
                    process_group=0,  # the terminal's Ctrl-C is for the launcher alone
                )
        ours.setblocking(False)
        self._children[gmi_id] = _Child(process, ours, log)
        self._selector.register(ours, selectors.EVENT_READ, gmi_id)

    def _receive(self, wait_s: float) -> list[tuple[int, Message]]:
        """Messages that have come within `wait_s`; complaints about peers give way to the peers' own errors."""
        received, complaint, deadline = [], None, time.monotonic() + wait_s
        while True:
            for key, _ in self._selector.select(max(0.0, deadline - time.monotonic())):
                message = self._read(key.data)
                if message.get("kind") == "error" and message["blames_peer"]:
                    complaint = complaint or self._failure(key.data, message)
                    deadline = time.monotonic() + BLAME_S
                elif message.get("kind") == "error":
                    raise self._failure(key.data, message)
                else:
                    received.append((key.data, message))
            if complaint is None and received:
                return received
            if time.monotonic() >= deadline:
                if complaint is not None:
                    raise complaint
                return received

    def _read(self, gmi_id: int) -> Message:
        """One message of a GMI. The end of its line before it is done is its death."""
        child = self._children[gmi_id]
        try:
            data = child.socket.recv(MAX_BYTES)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(child.socket)
            if not child.is_done:
                raise self._death(gmi_id)
            return {}
        message = decode(data)
        if message.get("kind") == "error":  # its last words: that the line ends now is no news
            self._selector.unregister(child.socket)
        if message.get("kind") == "ready":
            self.backend.prove_attached(gmi_id, child.process.pid)
            child.is_ready = True
        if message.get("kind") == "done":
            child.is_done = True
            self.results[gmi_id] = message.get("result")
        return message

    def _failure(self, gmi_id: int, message: Message) -> GmiError:
        """The error that a GMI has told of, with the exit code that it asks for."""
        error = GmiError(f"GMI {gmi_id}: {message['message']}\n  its log is {self._children[gmi_id].log}")
        error.exit_code = int(message["exit_code"])
        if message["blames_peer"]:
            error.exit_code = GmiError.exit_code
        return error

    def _death(self, gmi_id: int) -> GmiError:
        child = self._children[gmi_id]
        try:
            code = child.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            return GmiError(f"GMI {gmi_id} has closed its line but still runs{self._see_log(gmi_id)}")
        how = f"exited with code {code}"
        if code < 0:
            name = signal.Signals(-code).name
            how = f"was killed by {name}" + (" (by hand, or for want of memory)" if name == "SIGKILL" else "")
        return GmiError(f"GMI {gmi_id} (process {child.process.pid}) {how}{self._see_log(gmi_id)}")

    def _see_log(self, gmi_id: int) -> str:
        log = self._children[gmi_id].log
        with suppress(OSError):
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            return f"\n  its log is {log}" + "".join(f"\n  | {line}" for line in lines)
        return ""
