"""Requests that have one answer each."""

import time
from typing import Any

from torch import Tensor

from gmi_drl.replay.client.connection import ANSWER_S, ServerConnection, raise_error
from gmi_drl.replay.client.samples import ServerBatch, Wish
from gmi_drl.replay.client.shared import LeaseLostError
from gmi_drl.replay.words import (
    DONE,
    ERROR,
    ITEMS_AT_ONCE,
    SAMPLES,
    Keys,
    Number,
    WordError,
    from_json,
    read,
    write,
)


def answer_of(
    connection: ServerConnection, kind: int, message: list[bytes | memoryview], request: int, deadline: float
) -> Any:
    """Send a request whose answer is JSON and of the same kind. Returns it, or raises what the server tells."""
    found: list[Any] = []

    def handle(came: int, content: bytes) -> None:
        answered, told = from_json(content)
        if came == ERROR:
            raise_error(told)
        if came != kind or answered != request:
            raise WordError(f"an answer of kind {came} came where {kind} was expected")
        found.append(told)

    connection.framed.send_together([(kind, message)])
    connection.wait(lambda: bool(found), handle, deadline, "a call")
    return found[0]


def number_of(connection: ServerConnection, kind: int, number: int) -> int:
    """Send a request with a number. Returns the number that answers it."""
    frames = [(kind, write(Number(connection.next_request(), number)))]
    return _sum_of_answers(connection, frames)


def send_keys(connection: ServerConnection, kind: int, table: int, keys: Tensor, *values: Tensor) -> int:
    """Send keys `[n]` and what belongs to them, in as many messages as it needs. Returns the sum of the answers."""
    frames = []
    for start in range(0, len(keys), ITEMS_AT_ONCE):
        parts = [one[start : start + ITEMS_AT_ONCE] for one in (keys, *values)]
        frames.append((kind, write(Keys(connection.next_request(), table, len(parts[0])), *parts)))
    return _sum_of_answers(connection, frames)


def sampled(connection: ServerConnection, wish: Wish, server: int) -> ServerBatch:
    """Ask for a batch, and wait for it."""
    found: list[ServerBatch] = []

    def handle(kind: int, content: bytes) -> None:
        if kind == ERROR:
            raise_error(from_json(content)[1])
        if kind != SAMPLES or found:
            raise WordError(f"an answer of kind {kind} came where a batch was expected")
        found.append(wish.receive(connection, content, server))

    wish.ask(connection)
    deadline = time.monotonic() + wish.timeout_s + ANSWER_S
    while True:
        try:
            connection.wait(lambda: bool(found) and not connection.framed.is_receiving, handle, deadline, "a sample")
        except LeaseLostError:
            wish.ask(connection)
        else:
            return found[0]


def _sum_of_answers(connection: ServerConnection, frames: list[tuple[int, list[bytes | memoryview]]]) -> int:
    numbers: list[int] = []
    errors: list[Any] = []

    def handle(kind: int, content: bytes) -> None:
        if kind == ERROR:
            errors.append(from_json(content)[1])
        elif kind == DONE:
            numbers.append(read(Number, content)[0].number)
        else:
            raise WordError(f"an answer of kind {kind} came where a number was expected")

    connection.framed.send_together(frames)
    deadline = time.monotonic() + ANSWER_S
    connection.wait(lambda: len(numbers) + len(errors) == len(frames), handle, deadline, "a call")
    if errors:
        raise_error(errors[0])
    return sum(numbers)
