"""The line between a GMI and its launcher: JSON messages over an inherited socket pair. No pickle, no RPC."""

import json
import math
import os
import socket
import time
from select import select
from typing import NoReturn

from gmi_drl.comm.memory.cuda_context import finish
from gmi_drl.errors import GmiError
from gmi_drl.roles.launcher.protocol import GMIWord, LauncherWord, Proved, Waits, said_by_launcher, to_message

MAX_BYTES = 64 * 1024
"""Longest message; `SOCK_SEQPACKET` keeps each whole."""


RENEW_S = 10.0
"""Between two words to the launcher that say no more than that this GMI waits."""

PROOF_S = 600.0
"""Until a launcher must have seen where a GMI computes, and all others that are asked about before it."""


def line_pair() -> tuple[socket.socket, socket.socket]:
    """Sockets of the launcher and of the GMI; the second is to be inherited."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def encode(word: LauncherWord | GMIWord) -> bytes:
    """One message.

    Raises:
        GmiError: if it is too long.
    """
    data = json.dumps(to_message(word)).encode()
    if len(data) > MAX_BYTES:
        raise GmiError(f"a message of {len(data)} bytes is longer than {MAX_BYTES}: write it to the run folder instead")
    return data


def decode(data: bytes) -> object:
    """What one message holds: `words` tells what is said by it. Raises ValueError for what is no JSON."""
    try:
        message: object = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return message


class LauncherConnection:
    """A GMI's end of the line."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._early: list[LauncherWord] = []
        self._renewed_s = -math.inf

    def report(self, word: GMIWord) -> None:
        """Send without ever waiting: a launcher that does not read misses the message."""
        try:
            self._socket.send(encode(word))
        except BlockingIOError:
            return
        except OSError:
            self._leave()

    def renew(self) -> None:
        """Tell the launcher, once in `RENEW_S` at most, that this GMI waits for somebody who is slow and not silent."""
        if time.monotonic() - self._renewed_s > RENEW_S:
            self._renewed_s = time.monotonic()
            self.report(Waits())

    def deliver(self, word: GMIWord) -> None:
        """Send what must arrive, such as a result or an error.

        A launcher that is stopped is waited for; with one that dies the kernel ends this process.
        """
        self._socket.setblocking(True)
        try:
            self._socket.send(encode(word))
        except OSError:
            self._leave()
        finally:
            self._socket.setblocking(False)

    def words(self) -> list[LauncherWord]:
        """What the launcher has said since the last call, e.g. `[Stop()]`."""
        words, self._early = self._early, []
        while True:
            try:
                data = self._socket.recv(MAX_BYTES)
            except BlockingIOError:
                return words
            except OSError:
                self._leave()
            if not data:
                self._leave()
            words.append(said_by_launcher(decode(data)))

    def await_words(self, wait_s: float) -> list[LauncherWord]:
        """As `words`, after waiting at most `wait_s` for one."""
        select([self._socket], [], [], 0 if self._early else wait_s)
        return self.words()

    def await_proof(self) -> None:
        """Wait for `Proved`, as `await_word`."""
        late = f"the launcher has not proved within {PROOF_S:.0f} s where this GMI computes"
        self.await_word(Proved(), PROOF_S, late)

    def await_word(self, awaited: LauncherWord, wait_s: float, late: str) -> None:
        """Wait for a word; other words that come meanwhile are there for the next call of `words`.

        Raises:
            GmiError: `late`, if it does not come.
        """
        early, deadline = list[LauncherWord](), time.monotonic() + wait_s
        while awaited not in early:
            if time.monotonic() > deadline:
                raise GmiError(late)
            early += self.await_words(1.0)
        early.remove(awaited)
        self._early = early

    def _leave(self) -> NoReturn:
        """A GMI without a launcher has nobody to work for. Its GPU may do what it was told (see `child.drain`)."""
        finish()
        os._exit(1)
