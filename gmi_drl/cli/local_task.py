"""A task in the process of a command, closed at the end with every process that it has started."""

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil

from gmi_drl.cli.output import report_error, say
from gmi_drl.config.task_names import CLOSE_S, ForeignTask, find_task
from gmi_drl.errors import GmiWarning

if TYPE_CHECKING:
    from gmi_drl.tasks import Task


@contextmanager
def open_task(name: str, num_env: int, seed: int, **more: Any) -> Iterator["Task"]:
    """Make the environments of a task for a `with` block, and close them after it; `more` is as of `tasks.make`.

    If closing takes longer than `CLOSE_S`, a warning and the error of the block are printed, and this process exits
    with that error's code: nothing else ends a simulator that hangs.
    """
    from gmi_drl.tasks import make

    if isinstance(find_task(name), ForeignTask):
        say(f"making {name}...")
    others = set(_children())
    try:
        task = make(name, num_env=num_env, seed=seed, **more)
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
        code = 0 if error is None else report_error(error)
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
    """Kill all processes that this one has started, except `others`."""
    for process in _children():
        if process not in others:
            with suppress(psutil.NoSuchProcess):
                process.kill()
