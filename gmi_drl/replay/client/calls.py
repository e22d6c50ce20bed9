"""Requests that have one answer each."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmi_drl.replay.client.connection import ANSWER_S, ServerConnection, raise_error
from gmi_drl.replay.client.samples import ServerBatch, Wish
from gmi_drl.replay.client.shared import LeaseLostError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.words import (
    DONE,
    ERROR,
    ITEMS_AT_ONCE,
    SAMPLES,
    Keys,
    Number,
    WordError,
    check_request,
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
    request = connection.next_request()
    return _sum_of_answers(connection, {request: (kind, write(Number(request, number)))})


def send_keys(connection: ServerConnection, kind: int, table: int, keys: Integers, *values: NDArray[np.float64]) -> int:
    """Send keys `[n]` and what belongs to them, in as many messages as it needs. Returns the sum of the answers."""
    frames = {}
    for start in range(0, len(keys), ITEMS_AT_ONCE):
        parts = [one[start : start + ITEMS_AT_ONCE] for one in (keys, *values)]
        request = connection.next_request()
        frames[request] = kind, write(Keys(request, table, len(parts[0])), *parts)
    return _sum_of_answers(connection, frames)


def sampled(connection: ServerConnection, wish: Wish, server: int) -> ServerBatch:
    """Ask for a batch, and wait for it."""
    found: list[ServerBatch] = []

    def handle(kind: int, content: bytes) -> None:
        if kind == ERROR:
            answered, told = from_json(content)
            check_request(answered, 0, asked)
            raise_error(told)
        if kind != SAMPLES or found:
            raise WordError(f"an answer of kind {kind} came where a batch was expected")
        found.append(wish.receive(connection, content, asked, server))

    asked = wish.ask(connection)
    deadline = time.monotonic() + wish.timeout_s + ANSWER_S
    while True:
        try:
            connection.wait(lambda: bool(found) and not connection.framed.is_receiving, handle, deadline, "a sample")
        except LeaseLostError:
            asked = wish.ask(connection)
        else:
            return found[0]


def _sum_of_answers(connection: ServerConnection, frames: dict[int, tuple[int, list[bytes | memoryview]]]) -> int:
    """Send messages, each by its request, and wait for all answers. Returns the sum of their numbers."""
    numbers: list[int] = []
    errors: list[Any] = []

    def handle(kind: int, content: bytes) -> None:
        if kind == ERROR:
            answered, told = from_json(content)
            errors.append(told)
        elif kind == DONE:
            word, _ = read(Number, content)
            answered = word.request
            numbers.append(word.number)
        else:
            raise WordError(f"an answer of kind {kind} came where a number was expected")
        check_request(answered, *waiting)
        waiting.remove(answered)

    waiting = set(frames)
    connection.framed.send_together(frames.values())
    deadline = time.monotonic() + ANSWER_S
    connection.wait(lambda: not waiting, handle, deadline, "a call")
    if errors:
        raise_error(errors[0])
    return sum(numbers)
