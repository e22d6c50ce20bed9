"""Versions that must be the same on all nodes of a run."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

COMPARED = ("gmi-drl", "torch", "numpy", "mujoco")


def versions_here() -> dict[str, str]:
    """The versions of packages here (`-`: not installed), and of Python without its patch level."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in COMPARED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "-"
    return found


def differing(by_node: Mapping[str, Mapping[str, str]]) -> str:
    """A table of the versions that differ between nodes; empty if none does."""
    names = list(dict.fromkeys(name for versions in by_node.values() for name in versions))
    unlike = [name for name in names if len({versions.get(name, "-") for versions in by_node.values()}) > 1]
    if not unlike:
        return ""
    rows = [["", *by_node]] + [[name, *(versions.get(name, "-") for versions in by_node.values())] for name in unlike]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
