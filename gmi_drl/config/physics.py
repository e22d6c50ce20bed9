"""What simulates the tasks of gmi-drl."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

Physics = Literal["native", "warp"]
"""MuJoCo on CPU threads, or MuJoCo Warp on the device."""


def has_warp() -> bool:
    """Whether MuJoCo Warp 4 is installed; the versions before, which others pin, have another interface."""
    with suppress(PackageNotFoundError):
        return int(version("mujoco-warp").partition(".")[0]) >= 4
    return False


def usual_physics(on_gpu: bool) -> Physics:
    """Warp on a GPU where it is installed, else native."""
    return "warp" if on_gpu and has_warp() else "native"
