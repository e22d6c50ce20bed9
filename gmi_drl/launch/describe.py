"""The sizes of any task, without its simulator in this process."""

import json
import os
import subprocess
import sys
from functools import cache, partial
from typing import Any

from gmi_drl import errors
from gmi_drl.errors import GmiError
from gmi_drl.roles.child import die_with
from gmi_drl.task_names import DESCRIPTION_SCHEMA, ForeignTask, find_task
from gmi_drl.workload import TaskSpec

DESCRIBE_S = 1200.0
"""How long a simulator may take to start and make one world: Isaac Lab takes a minute or two, and mjlab compiles its
kernels the first time, which takes minutes on a busy core.

More than `isaacgym_process.START_S`, since an adapter that gives its simulator up knows better what went wrong.
"""

LOG_LINES = 5
"""Of each of the simulator's outputs."""


def task_spec(name: str) -> TaskSpec:
    """The sizes of a task. A foreign one is made in a process of its own to be asked, once in the life of this one.

    Args:
        name: See `task_names.find_task`.

    Raises:
        UsageError: there is no such task, or none that can be trained.
        MachineError: the simulator is not installed.
        GmiError: the process failed or took longer than `DESCRIBE_S`.
    """
    found = find_task(name)
    return _ask(found.name) if isinstance(found, ForeignTask) else found


@cache
def _ask(name: str) -> TaskSpec:
    line = [sys.executable, "-u", "-P", "-m", "gmi_drl.tasks.describe", name]
    try:
        process = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DESCRIBE_S,
            check=False,
            preexec_fn=partial(die_with, os.getpid()),
        )
    except subprocess.TimeoutExpired as late:
        said = _last_words(late.stdout, late.stderr)
        raise GmiError(f"{name} has not been made within {DESCRIBE_S:.0f} s; try it: {' '.join(line)}{said}") from None
    answer = _last_answer(process.stdout.decode(errors="replace"))
    if "spec" in answer:
        return TaskSpec(**answer["spec"] | {"hidden": tuple(answer["spec"]["hidden"])})
    if "error" in answer:
        kind: type[GmiError] = getattr(errors, answer["error"]["kind"], GmiError)
        raise kind(answer["error"]["message"])
    said = _last_words(process.stdout, process.stderr)
    raise GmiError(f"{name} cannot be made, exit code {process.returncode}: {' '.join(line)}{said}")


def _last_words(*outputs: bytes | None) -> str:
    """The end of each output, to come after a message; None for an output that stayed empty."""
    ends = [(output or b"").decode(errors="replace").splitlines()[-LOG_LINES:] for output in outputs]
    return "".join(f"\n  | {line}" for lines in ends for line in lines)


def _last_answer(printed: str) -> dict[str, Any]:
    """What `tasks.describe` answered, among what the simulator printed; empty if nothing."""
    for line in reversed(printed.splitlines()):
        if line.startswith(f'{{"schema": "{DESCRIPTION_SCHEMA}"'):
            answer: dict[str, Any] = json.loads(line)
            return answer
    return {}
