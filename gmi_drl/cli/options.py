"""Options that several commands have."""

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from gmi_drl.config.task_names import OF_OTHER_PYTHON, SIMULATOR_PYTHON
from gmi_drl.errors import UsageError
from gmi_drl.layout.backends import BACKENDS, PROCESS

if TYPE_CHECKING:
    from gmi_drl.config.task_section import TaskSettings

Function = TypeVar("Function", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number in a range. What click alone takes for one, too, is refused: `nan` and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text into a finite number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def format_option(function: Function) -> Function:
    """Add `--format table|json`."""
    kinds = click.Choice(["table", "json"])
    return click.option("--format", type=kinds, default="table", help="For people or for programs.")(function)


def simulator_option(function: Function) -> Function:
    """Add `--simulator-python`; see `use_simulator`."""
    return click.option(
        "--simulator-python",
        type=click.Path(exists=True, dir_okay=False, executable=True),
        help=f"The Python in which Isaac Gym is installed, for isaacgym:TASK.  [default: ${SIMULATOR_PYTHON}]",
    )(function)


def use_simulator(python: str | None, task: str, *, is_here: bool = True) -> None:
    """Set the variable that names the interpreter of `--simulator-python`, if given; GMIs inherit it.

    Raises:
        UsageError: if the task needs no other interpreter, or the GMIs start on other machines.
    """
    if python is None:
        return
    if task.partition(":")[0].lower() != OF_OTHER_PYTHON:
        named = f"not for {task}" if task else "and the layout names no task"
        raise UsageError(f"--simulator-python is for {OF_OTHER_PYTHON}:TASK, {named}: leave it out")
    if not is_here:
        remedy = f"set {SIMULATOR_PYTHON} on each of them, and here"
        raise UsageError(f"--simulator-python is for GMIs of this machine, not for nodes of a cluster: {remedy}")
    os.environ[SIMULATOR_PYTHON] = os.path.abspath(python)


def env_arg_option(function: Function) -> Function:
    """Add `--env-arg`, which becomes a part of the task's name: see `task_names.with_arguments`."""
    words = (
        "An argument for the constructor of the --task's environments (gymnasium:, envpool:), such as "
        "urdf_path=/path/to/robot.urdf. A relative path starts at the folder where the command, and each node, runs. "
        "Repeatable."
    )
    return click.option("--env-arg", multiple=True, metavar="KEY=VALUE", help=words)(function)


def task_set_option(function: Function) -> Function:
    """Add `--set` of commands that measure; see `played_as`."""
    words = "Set a value of the section task of config.yaml, such as task.stack=2. Repeatable."
    return click.option("--set", multiple=True, metavar="task.KEY=VALUE", help=words)(function)


def played_as(task: str, settings: Sequence[str]) -> "TaskSettings":
    """The section `task` with the values of `--set`.

    Raises:
        UsageError: if another section is set, or if the task does not take a setting.
    """
    from gmi_drl.config.run_config import RunConfig, apply_settings
    from gmi_drl.config.task_section import refused_settings

    if others := [setting for setting in settings if not setting.lstrip().startswith("task.")]:
        raise UsageError(
            f"--set {' '.join(others)}: a plan is for the usual settings, but for task.*: give it to train"
        )
    played = apply_settings(RunConfig(), settings).task
    if refused := refused_settings(task, played):
        raise UsageError(refused)
    return played


def algo_option(default: str = "ppo") -> Callable[[Function], Function]:
    """Add `--algo`. `default` describes the default."""
    words = (
        f"The algorithm: ppo (ours), a3c, dqn, sac, sequence, rsl_rl, or one of another package.  [default: {default}]"
    )
    return click.option("--algo", metavar="NAME", help=words)


def backend_option(usual: str = PROCESS.name) -> Callable[[Function], Function]:
    """Add `--backend`; see `named_backend`. `usual` describes the default."""
    names = ", ".join(entry.name for entry in BACKENDS.own)
    words = f"What cuts devices into GMIs: {names}, or one of another package.  [default: {usual}]"
    return click.option("--backend", metavar="NAME", help=words)


def apply_mig_option(command: Function) -> Function:
    """Add `--apply-mig`."""
    words = (
        "Create the MIG instances of a layout with the backend mig or mig-ci (without a LAYOUT file equal ones), and"
        " turn MIG mode on. Afterwards restore what was there. Needs root."
    )
    return click.option("--apply-mig", is_flag=True, help=words)(command)


def launcher_option(command: Function) -> Function:
    """Add `--launcher local|ray`."""
    words = (
        "Start the GMIs on this machine, or on the nodes of a Ray cluster: that of RAY_ADDRESS, else one that runs"
        " here, else a new one."
    )
    return click.option("--launcher", type=click.Choice(["local", "ray"]), default="local", help=words)(command)


def named_backend(name: str | None) -> str:
    """The name of the backend of `--backend`, or of the default one.

    Raises:
        UsageError: if no backend has this name.
    """
    return BACKENDS.find(name or PROCESS.name).name
