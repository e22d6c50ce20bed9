"""The memory of a server on the same host, mapped by its client."""

import mmap
import os
import platform
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gmi_drl.errors import GmiError
from gmi_drl.replay.storage.shared import MappedStorage

if TYPE_CHECKING:
    from gmi_drl.replay.client.connection import RemoteStorage

_MOST = 64  # storages
_WORD_BYTES = 4096


class LeaseLostError(GmiError):
    """The server needed blocks that this client was still reading, which stood still. The batch is not used."""


class SharedMemory:
    """The storages of a server in this process.

    Args:
        connection: A Unix socket that has greeted.
        storages: Of the server, in order, that are shared.
        writable: Whether rows are written, too.

    Raises:
        OSError: if the server refuses.
    """

    def __init__(self, connection: socket.socket, storages: "Sequence[RemoteStorage]", *, writable: bool) -> None:
        first, descriptors, _, _ = socket.recv_fds(connection, 1, _MOST)
        try:
            if first != b"F" or len(descriptors) != 1 + len(storages):
                raise OSError("the server shares no memory with this user")
            self._word = memoryview(mmap.mmap(descriptors[0], _WORD_BYTES, prot=mmap.PROT_READ)).cast("q")
            self._storages = {
                storage.number: MappedStorage(
                    storage.signature, storage.steps, storage.longest, descriptor, writable=writable
                )
                for storage, descriptor in zip(storages, descriptors[1:], strict=True)
            }
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def has(self, storage: "RemoteStorage") -> bool:
        """Whether a storage is mapped."""
        return storage.number in self._storages

    def storage(self, storage: "RemoteStorage") -> MappedStorage:
        """A mapped storage."""
        return self._storages[storage.number]

    def check(self, ticket: int) -> None:
        """Raise unless what was read for a ticket was kept until now.

        Raises:
            LeaseLostError: if others may have written there meanwhile.
        """
        if self._word[0] > ticket:
            raise LeaseLostError("the server took back what this client read for too long: ask again")


def is_possible() -> bool:
    """Whether this machine can share memory with a server: Linux, with processors that store in order."""
    return platform.system() == "Linux" and platform.machine() == "x86_64"
