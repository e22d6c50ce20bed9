"""Bytes that no right client sends, made of what one sends; and how this process has grown."""

import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND

WAIT_S = 60.0
"""Seconds after which something counts as hung."""

MOST_GROWTH_BYTES = 64 * 2**20
"""By which the memory of a process may grow: the allocator keeps some of what was freed."""

_SIZES = (2**16 + 1, 2**20 + 1, 2**40, 2**63, 2**64 - 1)


def frame(kind: int, *pieces: bytes | memoryview) -> bytes:
    """A frame of `comm.links.framing` as bytes."""
    body = b"".join(map(bytes, pieces))
    return struct.pack("<QQ", kind, len(body)) + body


def bad_frames(chance: random.Random, right: Sequence[bytes]) -> bytes:
    """Some frames: in a wrong order, altered, cut off, of wrong kinds or lengths, or nothing but chance.

    Args:
        chance: Decides.
        right: Frames that a client may send.
    """
    sent = bytearray(b"".join(chance.choice(right) for _ in range(chance.randrange(1, 6))))
    way = chance.randrange(7)
    if way == 0:
        return chance.randbytes(chance.randrange(1, 400))
    if way == 1:
        return struct.pack("<QQ", chance.randrange(FIRST_OTHER_KIND + 20), chance.choice(_SIZES)) + bytes(8)
    if way == 2:
        return frame(chance.randrange(64), chance.randbytes(chance.randrange(64)))
    if way == 3:  # a right head, and a body of the same length
        one = chance.choice(right)
        return one[:16] + chance.randbytes(len(one) - 16)
    return altered(chance, sent, is_cut=way == 4)


def altered(chance: random.Random, right: bytes, *, is_cut: bool) -> bytes:
    """The bytes with up to four others in their place, or cut off somewhere."""
    changed = bytearray(right)
    for _ in range(chance.randrange(5)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(1, len(changed) + 1)] if is_cut else changed)


def until(is_so: Callable[[], bool], why: str) -> None:
    """Wait for something; after `WAIT_S` seconds this raises AssertionError."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, why
        time.sleep(0.002)


def descriptors() -> int:
    """Of this process."""
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
