"""What `doctor` says of other libraries' games: installed or not."""

from importlib.metadata import version
from importlib.util import find_spec

from gmi_drl.cli.doctor.gpus import Finding

SIMULATORS = {
    "ale-py": ("ale_py", "atari:NAME", "atari"),
    "envpool": ("envpool", "envpool:NAME", "envpool"),
    "PettingZoo": ("pettingzoo", "pettingzoo:MODULE", "pettingzoo"),
}
"""Module, tasks and extra of each package."""


def simulator(package: str) -> Finding:
    """The version of a package, or the extra that installs it."""
    module, tasks, extra = SIMULATORS[package]
    if find_spec(module) is None:
        return f"{module} cannot be imported", f"tasks {tasks}: pip install 'gmi-drl[{extra}]'"
    return f"{version(package)}, tasks {tasks}", ""
