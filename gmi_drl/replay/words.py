"""What a replay server and its clients say to each other: a kind, a fixed struct, arrays of 8-byte numbers, then rows.

JSON is for what is rare: greetings, infos, errors. Everything is little-endian. A reader checks all lengths before it
makes room for anything.
"""

import json
import math
import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND
from gmi_drl.errors import GmiError, MachineError, UsageError

VERSION = 1
"""Of the protocol. Server and clients have the same."""

MESSAGE_BYTES = 64 * 1024
"""The most bytes of a message to a server. Rows are no part of it."""

REPLY_BYTES = 16 * 2**20
"""The most bytes of a message to a client."""

DATA_BYTES = 64 * 2**20
"""The most bytes of rows in an answer, and of a column that is sent at once."""

ITEMS_AT_ONCE = 1024
"""Items of a message, and keys, at most."""

SAMPLES_AT_ONCE = 65_536
"""Items of a batch, at most: others wait meanwhile."""

LONGEST_WAIT_S = 86_400.0
"""Seconds that a request waits at most."""

NO_TOKEN = "-" * 32
"""The token of a server that has none."""

(
    WELCOME,
    ERROR,
    STEPS,
    ITEMS,
    ACK,
    SAMPLE,
    SAMPLES,
    LEASE,
    LEASED,
    RELEASE,
    UPDATE,
    DELETE,
    RESET,
    INFO,
    CHECKPOINT,
    DONE,
) = range(FIRST_OTHER_KIND, FIRST_OTHER_KIND + 16)
"""Kinds of messages.

WELCOME: the tables of a server. ERROR: why a request failed. STEPS: rows follow, one frame a column, for the writer's
open block. ITEMS: stretches of that block become items. ACK: so many of a request have, in all. SAMPLE, SAMPLES: a
batch is wanted, and follows. LEASE, LEASED: a client in shared memory wants to write, and where. RELEASE: it has read.
UPDATE, DELETE, RESET, INFO, CHECKPOINT: what tables do. DONE: the answer to these.
"""

END_OF_EPISODE, IN_PLACE, NEXT_CALL = 1, 2, 4
"""Flags of STEPS: no later item has steps of this episode; the rows are in shared memory already, none follow; no later
item has steps of blocks that are full now."""

FLEXIBLE, DISTINCT, PLACES = 1, 2, 4
"""Flags of SAMPLE: fewer items will do; none twice; the client reads the rows in shared memory."""


class WordError(GmiError):
    """A message is not what its kind says."""


@dataclass
class Steps:
    """STEPS."""

    storage: int
    count: int
    flags: int
    timeout_s: float
    layout: ClassVar[struct.Struct] = struct.Struct("<IIId")


@dataclass
class Items:
    """ITEMS. Behind it first rows, lengths `[count, columns]` each, and priorities `[count]`.

    Rows are counted in the blocks that this client has opened, the first of which begins with row 0.
    """

    request: int
    table: int
    count: int
    columns: int
    version: int
    timeout_s: float
    layout: ClassVar[struct.Struct] = struct.Struct("<QIIIqd")


@dataclass
class Sample:
    """SAMPLE. `columns` has a bit for each that is wanted; `newer_than` is -1 for any version."""

    request: int
    table: int
    count: int
    flags: int
    columns: int
    newer_than: int
    timeout_s: float
    layout: ClassVar[struct.Struct] = struct.Struct("<QIIIQqd")


@dataclass
class Samples:
    """SAMPLES. Behind it probabilities `[count]` and records `[count, 3 + columns]`; then rows, a frame a column.

    `ticket` is for RELEASE, and -1 if rows follow.
    """

    request: int
    count: int
    longest: int
    table_size: int
    ticket: int
    layout: ClassVar[struct.Struct] = struct.Struct("<QIIQq")


@dataclass
class Keys:
    """UPDATE, with keys `[count]` and priorities `[count]` behind it; DELETE, with keys."""

    request: int
    table: int
    count: int
    layout: ClassVar[struct.Struct] = struct.Struct("<QII")


@dataclass
class Number:
    """A request and a number: a count in ACK and DONE, a table in RESET, a step in CHECKPOINT, a storage in LEASE."""

    request: int
    number: int
    layout: ClassVar[struct.Struct] = struct.Struct("<Qq")


@dataclass
class Lease:
    """LEASED: the place of the next row, and how many fit."""

    request: int
    place: int
    room: int
    layout: ClassVar[struct.Struct] = struct.Struct("<QQQ")


Word = TypeVar("Word", Steps, Items, Sample, Samples, Keys, Number, Lease)


def write(word: Any, *arrays: Tensor | NDArray[Any]) -> list[bytes | memoryview]:
    """The pieces of a message: the struct, then arrays of 8-byte numbers on the CPU."""
    pieces: list[bytes | memoryview] = [word.layout.pack(*vars(word).values())]
    for array in arrays:
        numbers = array.numpy() if isinstance(array, Tensor) else array
        if numbers.size:
            pieces.append(np.ascontiguousarray(numbers).data.cast("B"))
    return pieces


def read(word: type[Word], message: bytes) -> tuple[Word, memoryview]:
    """Read the struct of a message. Returns what is behind it, too.

    Raises:
        WordError: if it is too short, or a time is no number.
    """
    size = word.layout.size
    if len(message) < size:
        raise WordError(f"{word.__name__} has {len(message)} bytes, {size} are the least")
    read = word(*word.layout.unpack_from(message))
    timeout_s = getattr(read, "timeout_s", 0.0)
    if not 0 <= timeout_s <= LONGEST_WAIT_S:
        raise WordError(f"a wait of {timeout_s} s: 0 to {LONGEST_WAIT_S:g} are allowed")
    return read, memoryview(message)[size:]


def arrays(rest: memoryview, *shapes: tuple[tuple[int, ...], torch.dtype]) -> list[Tensor]:
    """The arrays of 8-byte numbers in all that is behind a struct, as tensors.

    Raises:
        WordError: if there are more or fewer bytes.
    """
    return [torch.from_numpy(part) for part in numbers(rest, *shapes)]


def numbers(rest: memoryview, *shapes: tuple[tuple[int, ...], torch.dtype]) -> list[NDArray[Any]]:
    """As `arrays`, as arrays of numpy: for few numbers a call takes less than torch's."""
    sizes = [math.prod(shape) for shape, _ in shapes]
    if 8 * sum(sizes) != len(rest):
        raise WordError(f"{len(rest)} bytes of numbers came where {8 * sum(sizes)} were expected")
    if not shapes:
        return []
    whole = np.array(rest.cast("q") if rest else [], dtype=np.int64)
    parts, start = list[NDArray[Any]](), 0
    for size, (shape, dtype) in zip(sizes, shapes, strict=True):
        part = whole[start : start + size]
        parts.append((part.view(np.float64) if dtype == torch.float64 else part).reshape(shape))
        start += size
    return parts


def to_json(request: int, content: Any) -> bytes:
    """A message of a request with JSON."""
    return struct.pack("<Q", request) + json.dumps(content).encode()


def from_json(message: bytes) -> tuple[int, Any]:
    """Read what `to_json` wrote.

    Raises:
        WordError: if it is something else.
    """
    try:
        return struct.unpack_from("<Q", message)[0], json.loads(message[8:])
    except (struct.error, ValueError, RecursionError) as error:
        raise WordError(f"no JSON: {error}") from None


def check_wait(timeout_s: float) -> None:
    """Raise unless a server lets a request wait for so many seconds.

    Raises:
        UsageError: if it does not.
    """
    if not 0 <= timeout_s <= LONGEST_WAIT_S:
        raise UsageError(f"timeout_s is {timeout_s}: give 0 to {LONGEST_WAIT_S:g} seconds (a day)")


def check_request(answered: int, *asked: int) -> None:
    """Raise unless an answer is of a request that was made; 0 is of the connection.

    Raises:
        WordError: if it is not.
    """
    if answered not in asked:
        raise WordError(f"an answer to request {answered} came where {', '.join(map(str, asked))} was expected")


def bytes_of(words: Tensor) -> memoryview:
    """The bytes of contiguous rows on the CPU."""
    return words.numpy().reshape(-1).view("u1").data


def check_byte_order() -> None:
    """Raise where numbers are not little-endian.

    Raises:
        MachineError: there.
    """
    if sys.byteorder != "little":
        raise MachineError("replay servers and clients run on little-endian machines only")


def this_host() -> str | None:
    """What processes have in common that see each other's numbers: boot and namespace. None where that is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None
