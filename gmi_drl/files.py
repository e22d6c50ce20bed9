"""Files that people write: YAML in, frozen models out, every mistake named at once."""

import json
import os
import stat
import types
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.registry import Registry
from gmi_drl.yaml_text import read_yaml, write_yaml

OTHER_VERSION = "make it anew, or use the gmi-drl that made it"

MOST_SHOWN = 80
"""Characters of a wrong value in a message."""


class FileModel(BaseModel):
    """A frozen part of a file. Unknown keys, numbers that are not finite and values of another type are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    former: ClassVar[Mapping[str, str]] = {}
    """Keys that earlier versions had, or whose value was a list then, and what stands there today."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys of another file that people look for in this one, and where they stand."""

    @classmethod
    def model_for(cls, data: object) -> "type[FileModel]":
        """Which model checks this part of a file; a part whose fields depend on one of them says so."""
        return cls

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, without what was worked out of the former values (`cached_property`)."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(copied).model_fields.keys() if update else ():
            del copied.__dict__[name]
        return copied


def known(registry: Registry[Any]) -> AfterValidator:
    """What makes a field of text the name of an entry."""

    def find(name: str) -> str:
        try:
            registry.find(name)
        except UsageError as error:  # one that the file can mend
            raise ValueError(str(error)) from None
        return name

    return AfterValidator(find)


Model = TypeVar("Model", bound=FileModel)


def parse(model: type[Model], data: object, source: str) -> Model:
    """Check `data`, as YAML or JSON gives it, against `model`.

    Raises:
        UsageError: with a line for every mistake: its place and, for an unknown key, the nearest known one. What the
            values contradict among themselves is told when each of them is right.
    """
    try:
        text = json.dumps(data, default=str)  # where lists stand for tuples, also strictly
    except (TypeError, ValueError, RecursionError) as error:  # keys of bytes, numbers of 5,000 digits
        raise UsageError(f"{source}: not plain values: {error}") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        lines = [explain(model, data, mistake) for mistake in _causes(error.errors())]
        count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        raise UsageError(f"{source}: {count}\n" + "\n".join(f"  {line}" for line in lines)) from None
    except UsageError as error:  # of a validator, which knows no source
        raise UsageError(f"{source}: {error}") from None


def load_yaml(model: type[Model], path: Path) -> Model:
    """Read and check one YAML file; no code runs."""
    return parse(model, read_mapping(path), str(path))


def read_mapping(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file; no code runs.

    Raises:
        UsageError: if it is no such file.
    """
    try:
        data = read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:  # 0b_ is a ValueError of PyYAML's
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected `key: value` lines, found {type(data).__name__}")
    return data


def load_json(model: type[Model], path: Path, kind: str) -> Model:
    """Read and check one JSON file, which errors call a `kind`.

    Raises:
        UsageError: with every mistake in it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a {kind}: {error}") from None
    return parse(model, data, str(path))


def dump_yaml(instance: FileModel) -> str:
    """The YAML that `load_yaml` reads back as an equal model. What is None is left out."""
    return write_yaml(instance.model_dump(mode="json", exclude_none=True))


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file that is, at any instant and after a crash, either the old one or the whole new one.

    A link stays a link, a file keeps its mode, and what is no regular file (`/dev/stdout`) is written to, not replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve() if path.is_symlink() else path  # a `pinned` folder's path must go on leading to that folder
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    create_mode = 0o666 if mode is None else mode  # never wider than the old file, not even for a moment
    try:
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, create_mode)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # what the umask took away
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _causes(mistakes: Sequence[Any]) -> list[Any]:
    """Leave out that a list is too short where it only is so because its items are mistaken."""
    places = [mistake["loc"] for mistake in mistakes]

    def has_cause(place: tuple[str | int, ...]) -> bool:
        return any(len(other) > len(place) and other[: len(place)] == place for other in places)

    return [mistake for mistake in mistakes if mistake["type"] != "too_short" or not has_cause(mistake["loc"])]


def explain(model: type[FileModel], data: object, mistake: Mapping[str, Any]) -> str:
    """One line that a person can act on, for one of pydantic's error dicts about `data`, whatever it tells.

    Args:
        model: Has checked the data.
        data: As YAML or JSON gives it.
        mistake: Has `type`, `loc`, `msg` and `input`.
    """
    where, kind, value = mistake["loc"], mistake["type"], mistake["input"]
    place = ".".join(str(part) for part in where) or "(file)"
    if kind == "extra_forbidden":
        return f"{place}: {_unknown_key(str(where[-1]), _models_at(model, data, where[:-1]))}"
    if kind == "missing":
        return f"{place}: missing"
    became = model.former.get(str(where[0])) if where else None
    if became and kind == "model_type" and isinstance(value, list):
        return f"{place}: of version 1, today {became}"
    if where in (("version",), ("schema",)):
        return f"{place}: this gmi-drl reads {_version_of(model)}, not {_short(value)}: {OTHER_VERSION}"
    message = str(mistake["msg"]).removeprefix("Value error, ")
    if isinstance(value, (str, int, float, bool)) and kind != "value_error":
        message += f" (got {_short(value)})"
    return f"{place}: {message}"


def _short(value: object) -> str:
    """A value as Python writes it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _version_of(model: type[FileModel]) -> str:
    """The values that a model takes as its `version` or `schema`."""
    field = model.model_fields.get("version") or model.model_fields.get("schema_")
    return " or ".join(repr(value) for value in typing.get_args(field.annotation)) if field else "no such key"


def _unknown_key(key: str, models: Sequence[type[BaseModel]]) -> str:
    """What is said of a key that none of these models has."""
    ours = [model for model in models if issubclass(model, FileModel)]
    for model in ours:
        if key in model.former:
            return f"of version 1, today {model.former[key]}"
        if key in model.elsewhere:
            return model.elsewhere[key]
    return f"unknown key{did_you_mean(key, [name for model in models for name in model.model_fields])}"


def _models_at(model: type[FileModel], data: Any, place: Sequence[str | int]) -> list[type[BaseModel]]:
    """What checks a place such as `("devices", 0, "gmis")` of the data.

    pydantic's places also name what is not in the data, such as the member of a union: those are passed over.
    """
    models: list[type[BaseModel]] = [model]
    for part in place:
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        models = [inner for field in fields for inner in _models_in(field.annotation)] if fields else models
        with suppress(LookupError, TypeError):
            data = data[part]
        models = [_model_for(m, data) for m in models]
    return models


def _model_for(model: type[BaseModel], data: object) -> type[BaseModel]:
    """The model that checks this part; the one that is asked where no model is for such data."""
    with suppress(ValueError):
        return model.model_for(data) if issubclass(model, FileModel) else model
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, types.GenericAlias | types.UnionType) or typing.get_origin(annotation) is not None:
        return [inner for argument in typing.get_args(annotation) for inner in _models_in(argument)]
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return [annotation] if is_model else []
