"""Describes machines: nodes, clusters, GPUs and their MIG profiles, links and their speeds."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Cpu, Gpus, Node

# Imported when first asked for: pydantic takes a while, and `--help` does without.
_LAZY = {
    "Cpu": "gmi_drl.hardware.node",
    "Gpus": "gmi_drl.hardware.node",
    "Node": "gmi_drl.hardware.node",
}

__all__ = ["Cpu", "Gpus", "Node"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
