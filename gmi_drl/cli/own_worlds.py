"""Worlds in the process of a command: made, and closed at its end with all that they have started."""

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psutil

from gmi_drl.cli.output import say, tell
from gmi_drl.config.task_names import CLOSE_S, ForeignTask, find_task
from gmi_drl.errors import GmiWarning

if TYPE_CHECKING:
    from gmi_drl.tasks import Task


@contextmanager
def worlds(name: str, num_env: int, seed: int) -> Iterator["Task"]:
    """Worlds of a task for the time of a `with` block.

    They may take `CLOSE_S` to close. Then a warning is told, with the error that the block has raised, and the
    process ends with that error's exit code: nothing else ends a simulator that hangs.
    """
    from gmi_drl.tasks import make

    if isinstance(find_task(name), ForeignTask):
        say(f"making {name}...")
    others = set(_children())
    try:
        task = make(name, num_env=num_env, seed=seed)
        try:
            yield task
        finally:
            _close(task, others)
    finally:
        _kill_all_but(others)


def _close(task: "Task", others: set[psutil.Process]) -> None:
    name, error = task.spec.name, sys.exc_info()[1]

    def give_up() -> None:
        say(
            f"gmi-drl: warning: {name} has not closed within {CLOSE_S:g} s: this process and what it started are killed"
        )
        code = 0 if error is None else tell(error)
        _kill_all_but(others)
        os._exit(code)

    timer = threading.Timer(CLOSE_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        task.close()
    except Exception as error:
        warnings.warn(f"{name} failed to close: {type(error).__name__}: {error}", GmiWarning, stacklevel=1)
    finally:
        timer.cancel()


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _kill_all_but(others: set[psutil.Process]) -> None:
    """Kill what this process has started, but for some."""
    for process in _children():
        if process not in others:
            with suppress(psutil.NoSuchProcess):
                process.kill()
