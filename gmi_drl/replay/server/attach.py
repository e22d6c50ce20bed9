"""How clients of the same host and user get the memory of storages: descriptors over a Unix socket."""

import mmap
import os
import platform
import secrets
import socket
import struct
from collections.abc import Iterable

from gmi_drl.comm.memory.segment import allocate, create_empty
from gmi_drl.replay.server.handling import Handler
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.storage.shared import SharedStorage

LEASE_S = 0.05
"""Seconds that a client may read what it was lent, if somebody waits for a block."""

WORD_BYTES = 4096
"""Of the memory with the lease word."""

_CREDENTIALS = struct.Struct("3i")  # process, user and group of a peer


def listen_for_shared(handler: Handler) -> socket.socket | None:
    """A socket for clients of this host, if there is memory to share. Its name, which clients are told, is random.

    A lease that is taken back is seen by the client only where processors store in order: not on others.
    """
    if platform.machine() != "x86_64" or not any(isinstance(storage, SharedStorage) for storage in handler.storages):
        return None
    handler.shared_name = f"gmi-drl-replay-{secrets.token_hex(16)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{handler.shared_name}")
    listener.listen(1024)
    return listener


def share(connection: socket.socket, storages: Iterable[Storage]) -> memoryview:
    """Send a client the descriptors of a lease word and of all shared storages, in order. Returns the word.

    Raises:
        OSError: if it is another user's, or has gone.
    """
    size = _CREDENTIALS.size
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if user != os.getuid():
        raise PermissionError(f"user {user} is not {os.getuid()}, whose memory this is")
    word = create_empty("gmi-drl-replay-leases")
    try:
        allocate(word, 0, WORD_BYTES, "a lease word", "start fewer clients")
        shared = [storage.descriptor for storage in storages if isinstance(storage, SharedStorage)]
        socket.send_fds(connection, [b"F"], [word, *shared])
        return memoryview(mmap.mmap(word, WORD_BYTES)).cast("q")
    finally:
        os.close(word)
