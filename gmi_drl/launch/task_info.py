"""The sizes of tasks, without loading a simulator into this process, and whether a learner can learn them."""

import json
import os
import subprocess
import sys
import time
import warnings
from contextlib import closing, suppress
from functools import cache, partial
from select import POLLIN, poll
from tempfile import TemporaryFile
from typing import IO, Any

from gmi_drl import errors
from gmi_drl.config.learners import LEARNERS, LearnerConfig
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.config.task_names import CLOSE_S, DESCRIPTION_SCHEMA, ForeignTask, find_task
from gmi_drl.config.task_section import USUAL_SETTINGS, TaskSettings
from gmi_drl.errors import GmiError, GmiWarning, UsageError
from gmi_drl.launch.group_leader import KILLED_S, GroupLeader
from gmi_drl.launch.processes.reaper import Reaper
from gmi_drl.processes.signals import held_back
from gmi_drl.roles.main import die_with
from gmi_drl.workload import TaskSpec, spec_of

DESCRIBE_S = 1200.0
"""Deadline for a simulator to start and make one environment: Isaac Lab takes a minute or two, and mjlab compiles its
kernels the first time, which takes minutes on a busy core.

It is more than `isaacgym_process.START_S`, whose adapter then has the better message.
"""

LOG_LINES = 5
"""Lines of each output of the simulator that are quoted."""

READ_BYTES = 64 * 1024
"""Bytes of its output per read. As many earlier ones are kept, more than an answer has."""


def task_spec(name: str, settings: TaskSettings = USUAL_SETTINGS) -> TaskSpec:
    """The sizes of a task. Those of a foreign task are read from a process that makes it, once in the life of this one.

    That may take minutes, so a line on stderr says what is made.

    Args:
        name: See `task_names.find_task`.
        settings: The section `task` of the configuration.

    Raises:
        UsageError: if there is no such task, or it cannot be trained.
        MachineError: if the simulator is not installed.
        GmiError: if the process failed or took longer than `DESCRIBE_S`.
    """
    return sizes_of(find_task(name), settings)


def sizes_of(task: TaskSpec | ForeignTask, settings: TaskSettings = USUAL_SETTINGS) -> TaskSpec:
    """As `task_spec`, for what `find_task` has found."""
    return _ask(task.name, settings) if isinstance(task, ForeignTask) else task


def usual_config(task: str, kind: str, settings: TaskSettings = USUAL_SETTINGS) -> tuple[TaskSpec, RunConfig]:
    """A task's sizes, and the configuration of a new run of it by a kind of learner on this machine.

    Args:
        task: See `task_names.find_task`.
        kind: Of the learner.
        settings: The section `task` of the configuration.

    Raises:
        UsageError: if there is no such task or learner, or the learner cannot learn the task.
        MachineError: if the packages of the learner are not installed, which is checked before a simulator is started,
            or if the simulator is not.
    """
    LEARNERS.find(kind).require()
    found = find_task(task)
    spec = sizes_of(found, settings)
    config = default_config(spec, kind).model_copy(update={"task": settings})
    require_learnable(config.learner, found, spec)
    return spec, config


def require_learnable(learner: LearnerConfig, task: TaskSpec | ForeignTask, sizes: TaskSpec) -> None:
    """Refuse a task that the learner cannot learn (`LearnerConfig.check`).

    Args:
        learner: The section `learner` of the configuration.
        task: As `find_task` gives it.
        sizes: As `sizes_of` gives them.

    Raises:
        UsageError: with every mistake.
    """
    groups = None if isinstance(task, ForeignTask) else ["policy"]
    if mistakes := learner.check(sizes, groups):
        raise UsageError("; ".join(mistakes))


@cache
def _ask(name: str, settings: TaskSettings) -> TaskSpec:
    with suppress(OSError):  # a terminal that is gone
        print(f"making {name}...", file=sys.stderr, flush=True)
    with closing(Reaper()) as reaper, TemporaryFile() as stderr:
        child = _Describing(name, settings, stderr)
        reaper.watch(child.pid)
        try:
            answer = child.answer()
            if "spec" in answer:
                child.require_closed()
        finally:
            child.end()
            child.close()
    if "error" in answer:
        kind: type[GmiError] = getattr(errors, answer["error"]["kind"], GmiError)
        raise kind(answer["error"]["message"])
    return spec_of(answer["spec"])


class _Describing(GroupLeader):
    """A process that runs `tasks.describe`.

    Args:
        name: The name of the task.
        settings: The section `task` of the configuration.
        stderr: The file for its stderr.
    """

    def __init__(self, name: str, settings: TaskSettings, stderr: IO[bytes]) -> None:
        self.name, self._stderr, self._printed = name, stderr, b""
        command = [sys.executable, "-u", "-P", "-m", "gmi_drl.tasks.describe", name]
        if given := settings.given():
            command.append(json.dumps(given))
        self._command = " ".join(command)
        with held_back():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                process_group=0,
                preexec_fn=partial(die_with, os.getpid()),
            )
        super().__init__(process)
        assert process.stdout is not None
        self._pipe = process.stdout

    def answer(self) -> dict[str, Any]:
        """Read its answer, not until the end of the pipe: children of the simulator may keep that open.

        Raises:
            GmiError: if it has ended without an answer, or has not answered within `DESCRIBE_S`.
        """
        deadline, pipe, waiting = time.monotonic() + DESCRIBE_S, self._pipe.fileno(), poll()
        for descriptor in (pipe, self.exit_fd):
            waiting.register(descriptor, POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in waiting.poll(1000 * max(0.0, deadline - time.monotonic()))]
            if not ready or time.monotonic() > deadline:  # a process that prints all the time is always ready
                late = f"{self.name} has not been made within {DESCRIBE_S:.0f} s; try it: {self._command}"
                raise GmiError(late + self._quoted())
            read = os.read(pipe, READ_BYTES) if pipe in ready else b""
            self._printed = self._printed[-READ_BYTES:] + read
            if answer := _last_answer(self._printed.decode(errors="replace")):
                return answer
            if not read:
                code = self.exit_code(KILLED_S)
                words = f"{self.name} cannot be made, exit code {code}: {self._command}"
                raise GmiError(words + self._quoted())

    def require_closed(self) -> None:
        """Wait at most `CLOSE_S` until it has closed its task. Warns if it does not, or fails."""
        code = self.exit_code(CLOSE_S)
        if code is None:
            late = f"{self.name} has not closed within {CLOSE_S:g} s: its process is killed"
            warnings.warn(late, GmiWarning, stacklevel=1)
        elif code:
            words = f"{self.name} failed to close, exit code {code}: {self._command}{self._quoted()}"
            warnings.warn(words, GmiWarning, stacklevel=1)

    def close(self) -> None:
        """See `GroupLeader.close`."""
        self._pipe.close()
        super().close()

    def _quoted(self) -> str:
        """The last lines of stdout and stderr, to follow a message."""
        self._stderr.seek(0)
        ends = [
            output.decode(errors="replace").splitlines()[-LOG_LINES:] for output in (self._printed, self._stderr.read())
        ]
        return "".join(f"\n  | {line}" for lines in ends for line in lines)


def _last_answer(printed: str) -> dict[str, Any]:
    """The answer of `tasks.describe` among the output of the simulator; empty if there is none."""
    for line in printed.splitlines(keepends=True)[::-1]:
        if line.startswith(f'{{"schema": "{DESCRIPTION_SCHEMA}"') and line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    return {}
