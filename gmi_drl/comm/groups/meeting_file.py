"""Where the ranks of a group meet who share no descriptor: a file of this host."""

import errno
import mmap
import os
import time
from contextlib import suppress
from pathlib import Path

from gmi_drl.errors import MachineError, PeerSilentError, UsageError
from gmi_drl.membership import Membership
from gmi_drl.memory.peers import Peers
from gmi_drl.memory.segment import LINE_BYTES
from gmi_drl.memory.waiting import Waiting

_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = _OLD | os.O_CREAT | os.O_EXCL
_NAP_S = 0.01


def meet_at(store_path: Path, member: Membership) -> Peers:
    """Join the ranks' table, in a file beside that of a store, which is empty then and stays.

    Rank 0 makes both; nothing that was there before is touched. The table's file is gone when all have joined.

    Raises:
        UsageError: If there is something at the path.
        MachineError: If it cannot be written.
        PeerSilentError: If the others have not come within `hang_s`.
    """
    path = store_path.with_name(store_path.name + ".peers")
    header = f"gmi-drl {member.size} ranks\n".encode()
    try:
        fd = _make_files(store_path, path, header, member.size) if member.rank == 0 else _await(path, header, member)
    except FileExistsError as error:
        raise UsageError(f"there is a file {error.filename} already: the ranks meet at a new path") from None
    except OSError as error:
        raise MachineError(
            f"the ranks cannot meet at {path}: {error.strerror}; choose a folder that can be written"
        ) from error
    try:
        return Peers(mmap.mmap(fd, LINE_BYTES * (1 + member.size)), LINE_BYTES, member)
    except BaseException:
        if member.rank == 0:
            store_path.unlink()
        raise
    finally:
        os.close(fd)
        if member.rank == 0:
            path.unlink()  # all have mapped it, or have not come


def _make_files(store_path: Path, path: Path, header: bytes, size: int) -> int:
    os.close(os.open(store_path, _NEW, 0o600))
    try:
        fd = os.open(path, _NEW, 0o600)
    except OSError:
        store_path.unlink()
        raise
    try:
        os.posix_fallocate(fd, 0, LINE_BYTES * (1 + size))  # a full disk is an error here, not a SIGBUS later
        os.pwrite(fd, header, 0)  # now others take it for what it is
    except OSError:
        os.close(fd)
        path.unlink()
        store_path.unlink()
        raise
    return fd


def _await(path: Path, header: bytes, member: Membership) -> int:
    """Open the file of the table as soon as rank 0 has made it."""
    waiting = Waiting()
    while waiting.look() <= member.hang_s:
        with suppress(FileNotFoundError):
            fd = os.open(path, _OLD)
            if os.pread(fd, len(header), 0) == header:
                return fd
            os.close(fd)
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        time.sleep(_NAP_S)
    text = f"{member.name(0)} has not made {path} for {member.hang_s:g} s (hang_s)"
    raise PeerSilentError(f"{text} while {member.name(member.rank)} waited: see its log")
