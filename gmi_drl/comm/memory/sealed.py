"""Shared memory that one process sizes, seals and describes; the others wait for that, and check that they agree."""

import fcntl
import os
import struct
from dataclasses import dataclass

from gmi_drl.comm.memory.segment import allocate, in_pages
from gmi_drl.errors import MachineError, UsageError

_HEADER = struct.Struct("8sq")  # magic, the length of the description that follows
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True)
class Sealed:
    """A kind of memory of `segment.create_empty`.

    Args:
        magic: 8 bytes that it begins with.
        what: For errors, such as "the channels".
    """

    magic: bytes
    what: str

    def header_bytes(self, description: str) -> int:
        """Whole pages for magic and description, after which the content begins."""
        return in_pages(_HEADER.size + len(description.encode()))

    def is_made(self, descriptor: int) -> bool:
        """Whether it has been made.

        Raises:
            UsageError: If the descriptor is something else.
        """
        try:
            magic = os.pread(descriptor, len(self.magic), 0)
        except OSError as error:
            raise UsageError(
                f"descriptor {descriptor} is not the memory of {self.what}: {error.strerror} (see pass_fds)"
            ) from error
        if magic.strip(b"\0") not in (b"", self.magic):
            raise UsageError(f"descriptor {descriptor} is not the memory of {self.what}")
        return magic == self.magic

    def make(self, descriptor: int, nbytes: int, description: str, remedy: str) -> None:
        """Size it, seal its size, and write the description. From then on `is_made` is true for all.

        Args:
            descriptor: Of empty memory.
            nbytes: Its size.
            description: What `description` returns to the others.
            remedy: What a user can do if there is too little memory.

        Raises:
            UsageError: If it is not empty.
            MachineError: If there is not enough memory.
        """
        text = description.encode()
        try:
            if os.fstat(descriptor).st_size:
                raise UsageError(f"descriptor {descriptor} is not the empty memory of {self.what}")
            allocate(descriptor, 0, nbytes, self.what, remedy)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            os.pwrite(descriptor, text, _HEADER.size)
            os.pwrite(descriptor, _HEADER.pack(self.magic, len(text)), 0)  # last: a process that sees it sees all
        except OSError as error:
            raise MachineError(f"no memory for {self.what}: {error.strerror}: {remedy}") from error

    def description(self, descriptor: int) -> str:
        """The description with which it was made."""
        _, count = _HEADER.unpack(os.pread(descriptor, _HEADER.size, 0))
        return os.pread(descriptor, count, _HEADER.size).decode()
