"""The pages of files that people write: every field of every model, with type, default and meaning."""

import inspect
import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.settings import Setting
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout
from gmi_drl.replay.server.settings import ReplayTables
from gmi_drl.scheduler.profile import Profile
from gmi_drl.scheduler.worker_rates import WorkerProfile
from tools.site.fields import field_docs
from tools.site.markdown import page, table

CONFIG = """`gmi-drl train` writes it into the run folder. `--set KEY=VALUE` sets any value: `--set learner.gamma=0.98`.
Values are YAML. The last column says what a resumed run does with another value. Sections `learner` are for one kind
each, which `--algo` chooses; a new run gets some values from its task."""
RUNNER_TITLE = (
    "\n## Keys of learner.runner (rsl_rl)\n\nWhat a resumed run does with other values of rsl_rl's own keys.\n"
)
HEADS: dict[str, tuple[str, type[BaseModel], str]] = {
    "layout": ("layout.yaml", Layout, "`gmi-drl plan` writes it, `train` and `serve` read it."),
    "node": ("Node files", Node, "A machine, for `gmi-drl plan --node FILE`. Examples: `examples/nodes`."),
    "cluster": ("Cluster files", Cluster, "For `gmi-drl plan --cluster FILE`. Examples: `examples/clusters`."),
    "replay_tables": ("Replay tables", ReplayTables, "`gmi-drl replay serve FILE` reads it."),
    "worker_profile": (
        "Profiles of workers",
        WorkerProfile,
        "`gmi-drl profile --template workers` writes one, `plan --template workers --profile FILE` reads them.",
    ),
    "profile": ("Profile files", Profile, "`gmi-drl profile` writes one, `plan --profile FILE` reads it."),
}


def file_pages() -> dict[str, str]:
    """The pages of `config.yaml` and of all other files, by name."""
    pages = {
        f"reference/{name}.md": page(title, words, *map(section, models_of(model)))
        for name, (title, model, words) in HEADS.items()
    }
    return {"reference/config.md": _config_page(), **pages}


def _config_page() -> str:
    models: list[type[BaseModel]] = [entry.model for entry in LEARNERS.own]
    sections = [section(model) for model in models_of(RunConfig)]
    sections += [section(model, prefix="learner.") for model in models]
    return page("config.yaml", CONFIG, *sections, RUNNER_TITLE, _keys())


def _keys() -> str:
    from gmi_drl.config.learners.rsl_rl_keys import RUNNER

    rows = [(f"`learner.runner.{key}`", setting.effect) for key, setting in _leaves(RUNNER)]
    return table(("key", "when a run is resumed"), rows)


def _leaves(setting: Setting, place: str = "") -> Iterator[tuple[str, Setting]]:
    for key, inner in setting.inner.items():
        yield from _leaves(inner, f"{place}{key}.") if inner.inner else [(f"{place}{key}", inner)]


def models_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    """The model, and all models that its fields contain."""
    found: list[type[BaseModel]] = []
    waiting = [model]
    while waiting:
        one = waiting.pop(0)
        if one not in found:
            found.append(one)
            waiting += [inner for field in one.model_fields.values() for inner in _within(field.annotation)]
    return [one for one in found if not _is_learner(one)]


def _is_learner(model: type[BaseModel]) -> bool:
    return any(issubclass(model, base) for base in LEARNERS.own[0].model.__mro__[1:2])


def _within(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _within(part)]


def section(model: type[BaseModel], prefix: str = "") -> str:
    """A heading, the docstring and a table of the fields of a model."""
    docs = field_docs(model)
    marks = {name: _mark(field) for name, field in model.model_fields.items()}
    has_marks = any(marks.values())
    titles = ["field", "type", "default", "meaning", *(["when a run is resumed"] if has_marks else [])]
    rows = [
        [f"`{prefix}{field.alias or name}`", _type(field), _default(field), docs.get(name, "")]
        + ([marks[name]] if has_marks else [])
        for name, field in model.model_fields.items()
    ]
    return f"\n## {model.__name__}\n\n{inspect.getdoc(model)}\n\n{table(titles, rows)}"


def _mark(field: FieldInfo) -> str:
    return next((mark.effect for mark in field.metadata if isinstance(mark, Setting)), "")


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required" if field.default_factory is None else "empty"
    if isinstance(field.default, BaseModel):
        return "its defaults"
    if isinstance(field.default, tuple):
        return f"`{list(field.default)}`"
    if field.default is None or isinstance(field.default, bool):
        return f"`{json.dumps(field.default)}`"
    return f"`{field.default}`"


def _type(field: FieldInfo) -> str:
    bounds = [str(mark) for mark in field.metadata if re.match(r"(Ge|Gt|Le|Lt)\(", str(mark))]
    signs = {"Ge": ">=", "Gt": ">", "Le": "<=", "Lt": "<"}
    limits = [re.sub(r"(\w+)\(\w+=(.*)\)", lambda found: f"{signs[found[1]]} {found[2]}", bound) for bound in bounds]
    return ", ".join([_name(field.annotation), *limits])


def _name(annotation: Any) -> str:
    """A type in words."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _name(inner[0])
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("null" if part is types.NoneType else _name(part) for part in inner)
    if origin is tuple:
        return f"list of {_name(inner[0])}"
    if origin is dict:
        return f"mapping of {_name(inner[0])} to {_name(inner[1])}"
    plain = {int: "integer", float: "number", str: "text", bool: "true or false"}
    return plain.get(annotation, getattr(annotation, "__name__", str(annotation)))
