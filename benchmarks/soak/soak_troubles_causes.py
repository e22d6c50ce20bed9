"""How the troubles of `soak_troubles.py` are caused: a small disk and what fills it, limits, terminals."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def fill(file: Path) -> None:
    """Fill the disk that a file is on."""
    with file.open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(2**20))
    with file.open("ab", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(512))


def no_more_memory(process: psutil.Process) -> None:
    """Let a process have no more address space than it has."""
    with suppress(psutil.Error):
        has = process.memory_info().vms
        process.rlimit(resource.RLIMIT_AS, (has, has))


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a new file system of this size on a new folder for the time of a `with` block."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def nothing(folder: Path) -> Iterator[Path]:
    """A plain folder."""
    folder.mkdir()
    yield folder


@contextmanager
def terminal(*, wanted: bool) -> Iterator[tuple[int, int]]:
    """Both ends of a terminal for the time of a `with` block; -1 if none is wanted."""
    ends = os.openpty() if wanted else (-1, -1)
    try:
        yield ends
    finally:
        for end in ends:
            with suppress(OSError):
                os.close(end)


def closer(*descriptors: int) -> Callable[[], None]:
    """What closes descriptors."""

    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close
