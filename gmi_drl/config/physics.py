"""Chooses the simulator of gmi-drl's own tasks."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

Physics = Literal["native", "warp"]
"""MuJoCo on CPU threads, or MuJoCo Warp on the device."""


def has_warp() -> bool:
    """Whether MuJoCo Warp 4 or newer is installed; earlier versions, which others pin, have another interface."""
    with suppress(PackageNotFoundError):
        return int(version("mujoco-warp").partition(".")[0]) >= 4
    return False


def usual_physics(on_gpu: bool) -> Physics:
    """`warp` on a GPU if it is installed, else `native`."""
    return "warp" if on_gpu and has_warp() else "native"
