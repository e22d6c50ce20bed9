"""The page of the Python interface: signatures and docstrings."""

import inspect
import re
from typing import Any

import gmi_drl
from gmi_drl import api, replay, tasks
from tools.site.markdown import page

HEADINGS = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$", re.MULTILINE)
PUBLIC: dict[str, Any] = {
    **{f"gmi_drl.{name}": getattr(gmi_drl, name) for name in ("plan", "train", "run_role", "DRL_role", "GMI_manager")},
    "gmi_drl.api.Run": api.Run,
    "gmi_drl.tasks.make": tasks.make,
    "gmi_drl.tasks.Task": tasks.Task,
    "gmi_drl.tasks.TaskDefinition": tasks.TaskDefinition,
    "gmi_drl.tasks.check_task": tasks.check_task,
    "gmi_drl.replay.ExperienceDataset": replay.ExperienceDataset,
    "gmi_drl.replay.import_episodes": replay.import_episodes,
    "gmi_drl.replay.EpisodeSet": replay.EpisodeSet,
}
"""What is public, by full name."""


def python_page() -> str:
    """A section for each public function and class, classes with their public methods."""
    return page("Python", *(_section(name, one) for name, one in PUBLIC.items()))


def _section(name: str, one: Any) -> str:
    methods = _methods(one) if inspect.isclass(one) else {}
    parts = [f"\n## {name}\n", _described(name.rpartition(".")[2], one)]
    parts += [f"\n### {name.rpartition('.')[2]}.{key}\n\n{_described(key, method)}" for key, method in methods.items()]
    return "\n".join(parts)


def _methods(cls: type) -> dict[str, Any]:
    return {
        name: method
        for name, method in vars(cls).items()
        if inspect.isfunction(method) and not name.startswith("_") and method.__doc__
    }


def _described(name: str, one: Any) -> str:
    signature = str(inspect.signature(one)).replace(", *, ", ", *,\n    ") if callable(one) else ""
    text = HEADINGS.sub(r"**\1**\n", inspect.getdoc(one) or "")
    return f"```python\n{name}{_wrapped(signature)}\n```\n\n{_as_lists(text)}\n"


def _wrapped(signature: str) -> str:
    short = re.sub(r"<function .*?>", "...", signature)
    short = re.sub(r"\b(?:pathlib|collections\.abc|gmi_drl(?:\.\w+)+|torch|typing)\.(\w+)", r"\1", short)
    return (
        short
        if len(short) < 90
        else short.replace(", ", ",\n    ").replace("*,\n    \n", "*,\n").replace("(", "(\n    ", 1)
    )


def _as_lists(text: str) -> str:
    """Indented `name: meaning` lines as lists."""
    return re.sub(r"^ {4}(?! )(\w+(?:, \w+)*): ", r"- `\1`: ", text, flags=re.MULTILINE).replace("\n        ", "\n  ")
