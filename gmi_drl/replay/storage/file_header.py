"""The head of a file of replay: what is in it, as JSON in front of the rest."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Signature

HEADER_BYTES = 64 * 1024
"""In front of the rest: JSON, filled up with blanks."""

Facts = Mapping[str, str | int]


def create_file(
    path: Path, signature: Signature, facts: Facts, size: int, reserve: Callable[[int, int, int], None]
) -> None:
    """Make a file of `size` bytes under another name, then give it its own.

    Args:
        path: Of the file.
        signature: Of a step.
        facts: What must be the same where it is opened again.
        size: In bytes.
        reserve: Called with descriptor, offset and size to make it as large.

    Raises:
        OSError: if it cannot be written.
        UsageError: if the header is too long.
    """
    header = json.dumps({**facts, "signature": signature.to_json()}).encode()
    if len(header) > HEADER_BYTES:
        raise UsageError(f"{path}: the signature has {len(header)} bytes of JSON, {HEADER_BYTES} at most")
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with draft.open("xb") as file:
            reserve(file.fileno(), 0, size)
            os.pwrite(file.fileno(), header.ljust(HEADER_BYTES), 0)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def check_file(path: Path, signature: Signature, facts: Facts, size: int) -> None:
    """Raise unless `create_file` has made this file with the same signature, facts and size.

    Raises:
        OSError: if it cannot be read.
        UsageError: with both.
    """
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    try:
        found = json.loads(header)
        there = Signature.from_json(found.pop("signature"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UsageError(f"{path} is no file of replay rows") from None
    if difference := signature.difference(there):
        raise UsageError(f"{path} has steps of another signature: {difference}")
    if found != dict(facts) or path.stat().st_size != size:
        text = f"{_told(found)} and {path.stat().st_size} bytes, not {_told(facts)} and {size}"
        raise UsageError(f"{path} has {text}")


def _told(facts: Facts) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())
