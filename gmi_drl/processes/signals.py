"""Signals of the processes that a launcher starts: GMIs, supervisors of nodes, watchdogs and reapers.

systemd and `scancel --full` send SIGTERM to all processes of a run at once. Only the launcher reacts: it stops the
others in order. If they died of the signal, the launcher would take that for a fault.
"""

import faulthandler
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
"""Ends a GMI once its GPU is idle (`Instances.drains`). It is not sent to process groups."""

STACKS = SIGRTMIN + 9
"""Makes a GMI write the stacks of all its threads into its log (`show_stacks_on_signal`)."""


@contextmanager
def held_back() -> Iterator[None]:
    """Delay the signals of `ENDING` until the `with` block ends.

    In the main thread their handlers are delayed, too, so that a process that is started here is registered before a
    handler raises. Such a process starts with these signals blocked, until it calls `leave_to_launcher`: otherwise they
    would kill its interpreter while it starts.
    """
    with handlers_delayed():
        before = pthread_sigmask(SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            pthread_sigmask(SIG_SETMASK, before)


@contextmanager
def handlers_delayed() -> Iterator[None]:
    """Delay the handlers of `ENDING` until the `with` block ends; a signal that is ignored stays so.

    A mask is not enough: another thread may get the signal.
    """
    if current_thread() is not main_thread():  # only there are handlers set and called
        yield
        return
    came = list[int]()
    try:
        with handlers_kept():
            for number in ENDING:
                if getsignal(number) not in (SIG_IGN, None):
                    signal(number, lambda number, frame: came.append(number))
            yield
    finally:
        for late in came:
            raise_signal(late)


def leave_to_launcher() -> None:
    """Ignore the signals of `ENDING` from now on. Processes that this one forks or executes handle them as usual.

    SIGTERM and SIGHUP get a handler that does nothing: an ignored signal would stay ignored in programs that are
    executed, which then could not be ended. A signal that is ignored already, as by `nohup`, stays ignored. SIGINT is
    the exception: it stays ignored in those programs, too.
    """
    signal(SIGINT, SIG_IGN)
    for number in (SIGTERM, SIGHUP):
        if getsignal(number) is not SIG_IGN:
            signal(number, _do_nothing)
            siginterrupt(number, False)  # system calls of C code go on
    os.register_at_fork(after_in_child=_handle_as_usual)
    pthread_sigmask(SIG_UNBLOCK, ENDING)


def show_stacks_on_signal() -> None:
    """Write the stacks of all threads to stderr whenever `STACKS` comes, also while C code does not return."""
    faulthandler.register(STACKS, all_threads=True)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the handlers of `ENDING` after the `with` block: some libraries set their own."""
    if current_thread() is not main_thread():  # only there can handlers be set
        yield
        return
    before = {number: getsignal(number) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one of C code, which cannot be set again
                signal(number, handler)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _handle_as_usual() -> None:
    for number in (SIGTERM, SIGHUP):
        if getsignal(number) is _do_nothing:
            signal(number, SIG_DFL)
    signal(DRAIN, SIG_DFL)
