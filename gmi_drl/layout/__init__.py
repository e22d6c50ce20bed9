"""Layouts: how devices are cut, which GMI has which roles, and how gradients are summed."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

# Imported when first asked for: pydantic takes a while, and `--help` does without.
_LAZY = {
    "GMI": "gmi_drl.layout.layout",
    "Device": "gmi_drl.layout.layout",
    "GmiGroup": "gmi_drl.layout.layout",
    "Layout": "gmi_drl.layout.layout",
}

__all__ = ["GMI", "Device", "GmiGroup", "Layout"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
