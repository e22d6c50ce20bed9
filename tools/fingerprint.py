"""Digests of the files that commands have left in a folder: of each tensor, metric and text, without times."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

from gmi_drl.yaml_text import read_yaml

OF_A_RUN = frozenset({"state.json", "versions.json", ".lock"})
"""Files that hold times, the process and the machine."""

EVENTS = "events.out.tfevents"
"""The beginning of TensorBoard's files: the metrics again, with times."""

TIMES = ("_s", "_per_second")
"""Suffixes of metrics that are times or speeds."""

LEFT_OUT = {
    "metrics.jsonl": ("gmis", "dropped"),  # times of each GMI; rollouts under way when the training ended
    "checkpoint.json": ("parts", "digest"),  # digests of whole files, whose tensors are compared
    "index.json": ("run", "versions"),  # paths of the run, facts of the machine
}
"""Keys that are left out."""

NUMBERS = "its numbers"
"""The part of a text that holds its numbers alone, in their order."""

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def fingerprint(folder: Path) -> dict[str, str]:
    """The digests of a folder by file and name. Logs, TensorBoard's files and the folder `examples` are left out."""
    found: dict[str, str] = {}
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(EVENTS))
    for file in sorted(path for path in files if path.name not in OF_A_RUN):
        name = file.relative_to(folder)
        if name.parts[0] != "examples" and "logs" not in name.parts:
            found |= {f"{name} {part}".strip(): digest(content) for part, content in _contents(file)}
    return found


def digest(content: bytes) -> str:
    """The first twelve hexadecimal digits of a SHA-256."""
    return hashlib.sha256(content).hexdigest()[:12]


def _contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """The parts of a file by name; one part with an empty name if the file is compared as a whole."""
    if file.suffix == ".safetensors":
        with safe_open(file, "np") as tensors:
            for name in sorted(tensors.keys()):
                tensor = tensors.get_tensor(name)
                yield name, f"{tensor.dtype}{tensor.shape}".encode() + tensor.tobytes()
    elif file.name == "metrics.jsonl":
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for name, value in _looked_at(file.name, line).items():
                if not name.endswith(TIMES):
                    yield f"{number} {name}", json.dumps(value).encode()
    elif file.name == "config.yaml":
        for name, value in _leaves(read_yaml(file.read_text())):
            yield name, json.dumps(value).encode()
    elif file.name in LEFT_OUT:
        yield "", json.dumps(_looked_at(file.name, file.read_text())).encode()
    else:
        yield "", file.read_bytes()
        yield NUMBERS, " ".join(NUMBER.findall(file.read_text(errors="replace"))).encode()


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a nested mapping by dotted name."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}".strip("."))
    else:
        yield name, value


def _looked_at(file: str, text: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text).items() if name not in LEFT_OUT[file]}
