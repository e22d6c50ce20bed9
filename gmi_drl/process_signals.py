"""What signals mean to the processes that work for a launcher: GMIs, supervisors of nodes, watchdogs and reapers.

systemd and `scancel --full` send SIGTERM to all processes of a run at once. Only the launcher takes it then: it stops
the others in order. If they died of it, the launcher would take that for a fault.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from signal import (
    SIG_BLOCK,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    SIG_UNBLOCK,
    SIGHUP,
    SIGINT,
    SIGRTMIN,
    SIGTERM,
    getsignal,
    pthread_sigmask,
    raise_signal,
    siginterrupt,
    signal,
)
from threading import current_thread, main_thread
from types import FrameType

ENDING = (SIGINT, SIGTERM, SIGHUP)
"""Signals by which a user, a terminal or a service manager ends a run."""

DRAIN = SIGRTMIN + 8
"""Ends a GMI once its GPU has done what it was told (`Instances.drains`). Nobody sends it to a whole group."""


@contextmanager
def held_back() -> Iterator[None]:
    """Delay the signals of `ENDING` until the `with` block ends.

    In the main thread their handlers are delayed, too, so that what is started is registered before one of them raises;
    in another thread they are not. In a process that is started within the signals are delayed until it calls
    `leave_to_launcher`: without this they would kill an interpreter that is just starting.
    """
    with _handled_afterwards():
        before = pthread_sigmask(SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            pthread_sigmask(SIG_SETMASK, before)


@contextmanager
def _handled_afterwards() -> Iterator[None]:
    """Call handlers when the `with` block ends. A mask alone does not: another thread may take the signal."""
    if current_thread() is not main_thread():  # in which alone handlers are set and called
        yield
        return
    came = list[int]()
    try:
        with handlers_kept():
            for number in ENDING:
                if callable(getsignal(number)):
                    signal(number, lambda number, frame: came.append(number))
            yield
    finally:
        for late in came:
            raise_signal(late)


def leave_to_launcher() -> None:
    """Do nothing at a signal of `ENDING` from now on. What this process forks or executes handles them as usual.

    They get a handler, since what is ignored stays ignored in programs that are executed, which may then be waited for
    in vain. SIGINT has always been ignored. One that is ignored already, as by `nohup`, stays so.
    """
    signal(SIGINT, SIG_IGN)
    for number in (SIGTERM, SIGHUP):
        if getsignal(number) is not SIG_IGN:
            signal(number, _do_nothing)
            siginterrupt(number, False)  # system calls of C code go on
    os.register_at_fork(after_in_child=_handle_as_usual)
    pthread_sigmask(SIG_UNBLOCK, ENDING)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Give the signals of `ENDING` back the handlers that they had: some libraries take them for themselves."""
    if current_thread() is not main_thread():  # which alone can set them
        yield
        return
    before = {number: getsignal(number) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one of C code, which nobody can set again
                signal(number, handler)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _handle_as_usual() -> None:
    for number in (SIGTERM, SIGHUP):
        if getsignal(number) is _do_nothing:
            signal(number, SIG_DFL)
    signal(DRAIN, SIG_DFL)
