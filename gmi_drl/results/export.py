"""Writes the policy of a run as a file that other programs run without gmi-drl: ONNX, or `torch.export`."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gmi_drl.errors import MachineError
from gmi_drl.files import write_atomically
from gmi_drl.results.policy_module import BATCH, PolicyModule, RslRlModule, shape_text

Kind = Literal["onnx", "torch"]

SUFFIX: dict[Kind, str] = {"onnx": ".onnx", "torch": ".pt2"}
"""How the file of each kind is called."""

NEEDED = ("onnx", "onnxscript")
"""Packages by which torch writes ONNX."""

TYPES = {torch.float32: "float32", torch.uint8: "uint8"}


@dataclass(frozen=True)
class Port:
    """An input or output of an exported policy; `shape` has the text N for the number of observations."""

    name: str
    dtype: str
    shape: list[int | str]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} [{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Exported:
    """What was written."""

    inputs: list[Port]
    outputs: list[Port]
    notes: dict[str, str]


def require_exporter(kind: Kind) -> None:
    """Check that torch can write files of this kind here.

    Raises:
        MachineError: with what is not installed.
    """
    if missing := [name for name in NEEDED if kind == "onnx" and find_spec(name) is None]:
        raise MachineError(f"{' and '.join(missing)}: not installed: pip install 'gmi-drl[export]', or --to torch")


def export(module: PolicyModule | RslRlModule, path: Path, kind: Kind, facts: dict[str, str]) -> Exported:
    """Write a policy.

    Args:
        module: The policy.
        path: Of the file, which is replaced.
        kind: Of the file.
        facts: What the file tells of itself besides its inputs and outputs, texts by name.

    Raises:
        MachineError: if the file cannot be written.
    """
    inputs = [_port(name, tensor, module.batched) for name, tensor in module.inputs.items()]
    with torch.no_grad(), _quiet():
        results = module(*module.inputs.values())
        results = results if isinstance(results, tuple) else (results,)
        program = _trace(module)
        content = _onnx(program, module, facts | module.notes) if kind == "onnx" else _pt2(program, module, facts)
    outputs = {*module.outputs} if module.batched else set()
    try:
        write_atomically(path, content)
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from None
    ports = [_port(name, tensor, outputs) for name, tensor in zip(module.outputs, results, strict=True)]
    return Exported(inputs, ports, module.notes)


def _trace(module: PolicyModule | RslRlModule) -> Any:
    """The program of `torch.export`, for any number of observations."""
    batch = torch.export.Dim(BATCH)
    dynamic = tuple({0: batch} if name in module.batched else None for name in module.inputs)
    return torch.export.export(module, tuple(module.inputs.values()), dynamic_shapes=(dynamic,))


def _onnx(program: Any, module: nn.Module, facts: dict[str, str]) -> bytes:
    names: Any = module
    onnx = torch.onnx.export(
        program, (), None, dynamo=True, input_names=[*names.inputs], output_names=names.outputs, verbose=False
    )
    assert onnx is not None
    onnx.model.metadata_props.clear()  # paths of this machine
    onnx.model.metadata_props.update(facts)
    for value in [*onnx.model.graph, *onnx.model.graph.inputs, *onnx.model.graph.outputs]:
        value.metadata_props.clear()
    content: bytes = onnx.model_proto.SerializeToString()
    return content


def _pt2(program: Any, module: PolicyModule | RslRlModule, facts: dict[str, str]) -> bytes:
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={"facts.json": _json(facts | module.notes)})
    return content.getvalue()


def _json(facts: dict[str, str]) -> str:
    import json

    return json.dumps(facts)


def _port(name: str, tensor: Tensor, batched: set[str]) -> Port:
    return Port(name, TYPES[tensor.dtype], shape_text(name, tensor, batched))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's progress and its warnings about itself away from the user."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
