"""OpenGL contexts without a window, on the first platform that works on this machine."""

import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import Any

from gmi_drl.errors import MachineError, UsageError

PLATFORMS = ("egl", "osmesa")
"""Platforms in the order in which they are tried: EGL draws on a GPU, OSMesa on the CPU."""

TRIAL_S = 30.0

REMEDY = (
    "Install software rendering (Debian: apt-get install libosmesa6) or a GPU's EGL (libegl1 and the driver's own "
    "libraries). MUJOCO_GL=osmesa or egl chooses one"
)


def open_context(width: int, height: int) -> Any:
    """Open and make current a MuJoCo OpenGL context for pictures up to `width` x `height`. The caller must `free` it.

    The platform is that of MUJOCO_GL, or the first that works. It stays for the process: PyOpenGL cannot change it.

    Raises:
        MachineError: No platform works.
        UsageError: MUJOCO_GL names an unknown platform.
    """
    platform = _platform(os.environ.get("MUJOCO_GL", "").lower())
    try:
        context = import_module(f"mujoco.{platform}").GLContext(width, height)
        context.make_current()
    except Exception as error:  # drivers and PyOpenGL may raise anything
        raise MachineError(f"OpenGL by {platform} does not work here: {error}. {REMEDY}") from error
    return context


@cache
def _platform(wanted: str) -> str:
    if wanted not in ("", *PLATFORMS):
        raise UsageError(
            f"MUJOCO_GL is {wanted!r}, but pictures without a window need egl or osmesa; if it is unset, both are tried"
        )
    failures = []
    for platform in (wanted,) if wanted else PLATFORMS:
        failure = _try(platform)
        if not failure:
            return platform
        failures.append(f"{platform}: {failure}")
    raise MachineError(f"no OpenGL works here ({'; '.join(failures)}). {REMEDY}")


def _try(platform: str) -> str:
    """Why a platform does not work; empty if it does.

    The trial runs in a process of its own, because PyOpenGL cannot switch after a failure and a driver may crash.
    """
    script = f"from mujoco.{platform} import GLContext; c = GLContext(8, 8); c.make_current(); c.free()"
    try:
        trial = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=TRIAL_S
        )
    except subprocess.TimeoutExpired:
        return f"it hangs for {TRIAL_S:.0f} s"
    lines = trial.stderr.strip().splitlines() or [f"exit status {trial.returncode}"]
    return "" if trial.returncode == 0 else lines[-1]
