"""How the troubles of `soak_troubles.py` are caused: a small disk and what fills it, limits, clocks, terminals."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

LIBFAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
KERNEL_SLEEP = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, wanted, left) ? errno : 0;
}
"""
"""C: the sleep of the kernel. That of libfaketime 0.9.10 fails if it fakes no monotonic clock, as Python sleeps."""


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


def other_clock(clock: Path) -> dict[str, str]:
    """Environment variables of programs whose time of day is off by the seconds in a file. Needs a C compiler."""
    clock.write_text("+0")
    library = clock.with_name("kernel_sleep.so")
    compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(compiler, input=KERNEL_SLEEP, text=True, check=True)
    faked = {"FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {"LD_PRELOAD": f"{library} {LIBFAKETIME}", **faked}


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
