"""Reads files that people write: YAML or JSON in, frozen models out, all mistakes reported at once."""

import json
import os
import shutil
import stat
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.registry import Registry
from gmi_drl.yaml_text import read_yaml, write_yaml

OTHER_VERSION = "make it anew, or use the gmi-drl that made it"

MOST_SHOWN = 80
"""Most characters of a wrong value in a message."""


class FileModel(BaseModel):
    """A frozen part of a file. Unknown keys, infinite or NaN numbers and values of another type are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    former: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions (or keys that had a list then), each with its replacement."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that belong to another file, each with a sentence that says where."""

    @classmethod
    def model_for(cls, data: object) -> "type[FileModel]":
        """The model that checks this part of a file; a part whose fields depend on its content overrides this."""
        return cls

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but without cached properties of the old values."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(copied).model_fields.keys() if update else ():
            del copied.__dict__[name]
        return copied


def known(registry: Registry[Any]) -> AfterValidator:
    """A validator that accepts only names of entries in a registry."""

    def find(name: str) -> str:
        try:
            registry.find(name)
        except UsageError as error:  # pydantic reports a ValueError with its place in the file
            raise ValueError(str(error)) from None
        return name

    return AfterValidator(find)


Model = TypeVar("Model", bound=FileModel)


def parse(model: type[Model], data: object, source: str) -> Model:
    """Check `data`, as YAML or JSON gives it, against `model`.

    Raises:
        UsageError: with a line for every mistake: its place and, for an unknown key, the nearest known one.
            Contradictions between values are reported only if each value is right.
    """
    try:
        text = json.dumps(data, default=str)  # in strict mode pydantic accepts lists for tuples only in JSON
    except (TypeError, ValueError, RecursionError) as error:  # keys of bytes, numbers of 5,000 digits
        raise UsageError(f"{source}: not plain values: {error}") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        lines = _known_once([explain(model, data, mistake) for mistake in _causes(error.errors())])
        count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        raise UsageError(f"{source}: {count}\n" + "\n".join(f"  {line}" for line in lines)) from None
    except UsageError as error:  # of a validator, which does not know the source
        raise UsageError(f"{source}: {error}") from None


def load_yaml(model: type[Model], path: Path) -> Model:
    """Read and check one YAML file; it cannot run code."""
    return parse(model, read_mapping(path), str(path))


def read_mapping(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file; it cannot run code.

    Raises:
        UsageError: if it cannot be read, or is not a mapping.
    """
    try:
        data = read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:  # 0b_ is a ValueError of PyYAML's
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        found = "nothing" if data is None else type(data).__name__
        raise UsageError(f"{path}: expected `key: value` lines, found {found}")
    return data


def load_json(model: type[Model], path: Path, kind: str) -> Model:
    """Read and check one JSON file. `kind` is its name in errors.

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
    """The YAML of a model, which `load_yaml` reads back as an equal one. Fields with None are left out."""
    return write_yaml(instance.model_dump(mode="json", exclude_none=True))


def write_atomically(path: Path, content: str | bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file so that, at any time and after a crash, it is either the old one or the complete new one.

    Content may come in pieces. A symbolic link stays a link, a file keeps its mode, and a special file (`/dev/stdout`)
    is written, not replaced.

    Raises:
        OSError: if it cannot be written, with its name.
    """
    data = content.encode() if isinstance(content, str) else content
    pieces = [data] if isinstance(data, bytes) else data
    try:
        _write(path, pieces)
    except OSError as error:
        if error.errno is None:  # not of the system
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # it named no file, or the draft


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    if path.exists() and not path.is_file():
        with path.open("wb") as special:
            special.writelines(pieces)
        return
    path = path.resolve() if path.is_symlink() else path  # the link of a `pinned` folder must keep pointing to it
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    create_mode = 0o666 if mode is None else mode  # never wider than the old file, not even for a moment
    try:
        with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, create_mode)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # restore bits that the umask removed
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """An empty folder to write into, which takes the place of `folder` at the end of the `with` block.

    At any time and after a crash `whole(folder)` is either the old folder or the complete new one. If the block raises,
    the old one stays. Files in it are to be synced by who writes them.

    Raises:
        OSError: if a folder cannot be made or renamed.
    """
    draft, former = folder.with_name(f".{folder.name}.draft"), former_of(folder)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        sync_folder(draft)  # contents must be on the disk before the new name
        if folder.exists():  # else the former one is all that there is
            shutil.rmtree(former, ignore_errors=True)
            folder.rename(former)
        draft.rename(folder)
        sync_folder(folder.parent)
        shutil.rmtree(former, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def whole(folder: Path) -> Path:
    """Where the contents of a folder are that is `replaced`: beside it, if that was interrupted between two renames."""
    former = former_of(folder)
    return former if not folder.exists() and former.exists() else folder


def former_of(folder: Path) -> Path:
    """Where the old contents of a folder that is `replaced` are put aside."""
    return folder.with_name(f".{folder.name}.former")


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _causes(mistakes: Sequence[Any]) -> list[Any]:
    """The mistakes without those lists that are too short only because their items are mistaken."""
    places = [mistake["loc"] for mistake in mistakes]

    def has_cause(place: tuple[str | int, ...]) -> bool:
        return any(len(other) > len(place) and other[: len(place)] == place for other in places)

    return [mistake for mistake in mistakes if mistake["type"] != "too_short" or not has_cause(mistake["loc"])]


def _known_once(lines: Sequence[str]) -> list[str]:
    """The lines, with each list of known names only where it comes first."""
    shorter, told = [], set()
    for line in lines:
        mistake, _, names = line.partition("; known: ")
        shorter.append(mistake if names in told and names else line)
        told.add(names)
    return shorter


def explain(model: type[FileModel], data: object, mistake: Mapping[str, Any]) -> str:
    """The line of a message for one of pydantic's error dicts about `data`.

    Args:
        model: The model that checked the data.
        data: The data from YAML or JSON.
        mistake: The error dict with `type`, `loc`, `msg` and `input`.
    """
    where, kind, value = mistake["loc"], mistake["type"], mistake["input"]
    place = ".".join(str(part) for part in where) or "(file)"
    if kind == "extra_forbidden":
        models = _models_at(model, data, where[:-1])
        if section := _section_with(str(where[-1]), model, data, where[:-1]):
            return f"{place}: unknown key; did you mean '{section}.{where[-1]}'?"
        return f"{place}: {_unknown_key(str(where[-1]), models)}"
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
    """The `repr` of a value, shortened."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _version_of(model: type[FileModel]) -> str:
    """The values that a model accepts for its `version` or `schema`."""
    field = model.model_fields.get("version") or model.model_fields.get("schema_")
    return " or ".join(repr(value) for value in typing.get_args(field.annotation)) if field else "no such key"


def _unknown_key(key: str, models: Sequence[type[BaseModel]]) -> str:
    """The message for a key that none of these models has."""
    ours = [model for model in models if issubclass(model, FileModel)]
    for model in ours:
        if key in model.former:
            return f"of version 1, today {model.former[key]}"
        if key in model.elsewhere:
            return model.elsewhere[key]
    return f"unknown key{did_you_mean(key, [name for model in models for name in model.model_fields])}"


def _section_with(key: str, model: type[FileModel], data: object, place: Sequence[str | int]) -> str:
    """The section of this place that has the key, if exactly one has it; else empty. Lists have no such sections."""
    models = _models_at(model, data, place)
    if any(key in one.former or key in one.elsewhere for one in models if issubclass(one, FileModel)):
        return ""
    fields = {name: field for one in models for name, field in one.model_fields.items()}
    sections = [name for name, field in fields.items() if typing.get_origin(field.annotation) not in (tuple, dict)]
    having = [
        name for name in sections if any(key in inner.model_fields for inner in _models_at(model, data, (*place, name)))
    ]
    return ".".join(map(str, (*place, having[0]))) if len(having) == 1 else ""


def _models_at(model: type[FileModel], data: Any, place: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that check a place such as `("devices", 0, "gmis")` of the data.

    Parts of the place that are not in the data, such as the member of a union, are skipped.
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
    """The model that checks this part; the given one if there is no model for such data."""
    with suppress(ValueError):
        return model.model_for(data) if issubclass(model, FileModel) else model
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, types.GenericAlias | types.UnionType) or typing.get_origin(annotation) is not None:
        return [inner for argument in typing.get_args(annotation) for inner in _models_in(argument)]
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return [annotation] if is_model else []
