"""Looks up task names: one of our tasks, whose sizes are known, or one that other code makes.

`ant` and its alias `AT` are ours, and so is `mujoco:Ant-v5`, gymnasium's task on our physics. `gymnasium:Ant-v5` is
`Ant-v5` made by the adapter `gymnasium`. Arguments for its maker are part of the name, as JSON with sorted keys:
`gymnasium:my_robot:Walk-v0{"urdf_path": "a.urdf"}`, which `--env-arg urdf_path=a.urdf` makes. So layouts, runs and
measurements include them.
Other packages add names and prefixes by entry points of the group `gmi_drl.tasks`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gmi_drl.errors import MachineError, UsageError, did_you_mean, place_of
from gmi_drl.workload import MUJOCO, MUJOCO_SPECS, TASK_SPECS, TaskSpec

GROUP = "gmi_drl.tasks"
"""Entry points of third parties: `NAME = module:make`, `make(rest, *, num_env, device, seed, threads) -> Task`."""

DESCRIPTION_SCHEMA = "gmi-drl/task/2"
"""Schema of the line in which `tasks.describe` prints a task's sizes."""

CLOSE_S = 30.0
"""Seconds that the environments of a process may take to close, e.g. to stop servers and finish videos."""

SIMULATOR_PYTHON = "GMI_DRL_SIMULATOR_PYTHON"
"""The environment variable with the path of the interpreter that has Isaac Gym."""

OF_OTHER_PYTHON = "isaacgym"
"""The prefix of tasks that run in that interpreter."""

ADAPTERS = {
    "atari": "gmi_drl.tasks.adapters.atari:make_task",
    "envpool": "gmi_drl.tasks.adapters.envpool:make_task",
    "gymnasium": "gmi_drl.tasks.adapters.gymnasium:make_task",
    "isaacgym": "gmi_drl.tasks.adapters.isaacgym:make_task",
    "isaaclab": "gmi_drl.tasks.adapters.isaaclab:make_task",
    "mjlab": "gmi_drl.tasks.adapters.mjlab:make_task",
    "pettingzoo": "gmi_drl.tasks.adapters.pettingzoo:make_task",
    "several": "gmi_drl.tasks.adapters.several:make_task",
}
"""`module:function` that makes the tasks of a simulator, by prefix."""


@dataclass(frozen=True)
class ForeignTask:
    """A task of other code, of which only the name is known until it is made.

    Args:
        name: The name in layouts and files.
        entry_point: The entry point of its maker.
        rest: The part of the name after the colon; empty without one.
        arguments: Further arguments for its maker.
    """

    name: str
    entry_point: EntryPoint
    rest: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def maker(self) -> Callable[..., Any]:
        """Import `make(rest, *, num_env, device, seed, threads)`, which may take `arguments`, too.

        Raises:
            MachineError: if it cannot be imported.
        """
        try:
            maker: Callable[..., Any] = self.entry_point.load()
        except Exception as error:  # code of others
            words = f"{type(error).__name__}: {error} ({place_of(error)})"
            raise MachineError(f"{self.name}: {self.entry_point.value} cannot be imported: {words}") from error
        return maker


def find_task(name: str) -> TaskSpec | ForeignTask:
    """Look up the name of a task, without importing or making it.

    Args:
        name: A key of TASK_SPECS or MUJOCO_SPECS, an alias of the paper ("AT"), `PREFIX:REST`, or a third party's name.
            Case matters only in names of third parties.

    Raises:
        UsageError: with similar or known names, if there is none.
    """
    if name.lower() in _spellings():
        return _spellings()[name.lower()]
    bare, arguments = _split(name)
    if bare.lower() in _spellings():
        raise UsageError(f"{bare} is a task of gmi-drl and takes no arguments: leave --env-arg out")
    prefix, _, rest = bare.partition(":")
    if prefix.lower() == MUJOCO:
        known = f"there are {', '.join(MUJOCO_SPECS)}; gymnasium:NAME makes all others"
        raise UsageError(f"there is no task {name!r}: {known}")
    if prefix.lower() in ADAPTERS:
        if not rest:
            raise UsageError(f"{name!r} names no task: say which, as in {prefix.lower()}:NAME")
        entry_point = EntryPoint(prefix.lower(), ADAPTERS[prefix.lower()], GROUP)
        return ForeignTask(_joined(f"{prefix.lower()}:{rest}", arguments), entry_point, rest, arguments)
    for entry_point in entry_points(group=GROUP, name=prefix):
        return ForeignTask(_joined(bare, arguments), entry_point, rest, arguments)
    raise UsageError(_unknown(bare))


def with_arguments(name: str, given: Sequence[str]) -> str:
    """The name of a task with `KEY=VALUE` arguments for its maker added; values are YAML.

    Raises:
        UsageError: if one is malformed, given twice, or cannot be written as JSON.
    """
    from gmi_drl.yaml_text import read_yaml

    bare, arguments = _split(name)
    for one in given:
        key, is_equal, text = one.partition("=")
        if not (key.isidentifier() and is_equal):
            raise UsageError(f"--env-arg: expected KEY=VALUE, e.g. urdf_path=/path/to/robot.urdf, got {one}")
        if key in arguments:
            raise UsageError(f"--env-arg: {key} is given twice")
        try:
            arguments[key] = read_yaml(text)
            json.dumps(arguments[key])
        except Exception:  # of the YAML reader, or of JSON, e.g. for dates
            raise UsageError(f"--env-arg {one}: the value must be YAML that JSON can hold") from None
    return _joined(bare, arguments)


def _joined(bare: str, arguments: Mapping[str, Any]) -> str:
    return bare + (json.dumps(arguments, sort_keys=True) if arguments else "")


def _split(name: str) -> tuple[str, dict[str, Any]]:
    """Split a name into the name without arguments, and the arguments."""
    bare, brace, _ = name.partition("{")
    if not (brace and name.endswith("}")):
        return name, {}
    try:
        arguments = json.loads(name[len(bare) :])
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: what follows {bare} is not JSON ({error}): use --env-arg KEY=VALUE") from None
    if not all(key.isidentifier() for key in arguments):
        raise UsageError(f"{name}: names of arguments must be Python identifiers")
    return bare, arguments


def known_tasks() -> str:
    """The known names, for messages, without those of third parties."""
    ours = ", ".join((*sorted(TASK_SPECS), *MUJOCO_SPECS))
    return f"{ours}, or {', '.join(f'{prefix}:NAME' for prefix in ADAPTERS)}"


def as_file_name(name: str) -> str:
    """A task's name without arguments, made safe for the name of a file or folder."""
    return re.sub(r"[^\w.-]+", "-", name.partition("{")[0])


def _spellings() -> dict[str, TaskSpec]:
    tasks = (*TASK_SPECS.values(), *MUJOCO_SPECS.values())
    return {spelling.lower(): task for task in tasks for spelling in (task.name, task.alias)}


def _unknown(name: str) -> str:
    prefix, colon, _ = name.partition(":")
    third_parties = sorted(entry_points(group=GROUP).names)
    if colon:
        return f"there is no task {name!r}: nothing makes {prefix!r}" + did_you_mean(
            prefix.lower(), [*ADAPTERS, MUJOCO, *third_parties]
        )
    ours = sorted(spelling for spelling in _spellings() if ":" not in spelling)
    known = [*ours, *MUJOCO_SPECS, *third_parties, *(f"{adapter}:NAME" for adapter in ADAPTERS)]
    full = f"{MUJOCO}:{name}".lower()
    return f"there is no task {name!r}{did_you_mean(full if full in _spellings() else name.lower(), known)}"
