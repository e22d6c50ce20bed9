"""OpenGL without a window: which platform works on this machine."""

import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import Any

from gmi_drl.errors import MachineError, UsageError

PLATFORMS = ("egl", "osmesa")
"""Tried in this order: a GPU's driver draws by EGL, and a processor by OSMesa."""

TRIAL_S = 30.0

REMEDY = (
    "Install software rendering (Debian: apt-get install libosmesa6) or a GPU's EGL (libegl1 and the driver's own "
    "libraries). MUJOCO_GL=osmesa or egl chooses one"
)


def open_context(width: int, height: int) -> Any:
    """A current OpenGL context for pictures up to `width` x `height`, as MuJoCo's package makes it; `free` it.

    The platform is that of MUJOCO_GL, or the first that works. Once per process: PyOpenGL cannot change it.

    Raises:
        MachineError: None works.
        UsageError: MUJOCO_GL names another one.
    """
    platform = _platform(os.environ.get("MUJOCO_GL", "").lower())
    try:
        context = import_module(f"mujoco.{platform}").GLContext(width, height)
        context.make_current()
    except Exception as error:  # whatever a driver or PyOpenGL raises
        raise MachineError(f"OpenGL by {platform} does not work here: {error}. {REMEDY}") from error
    return context


@cache
def _platform(wanted: str) -> str:
    if wanted not in ("", *PLATFORMS):
        raise UsageError(
            f"MUJOCO_GL is {wanted!r}; pictures without a window need egl or osmesa; without it both are tried"
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

    A process of its own tries, as PyOpenGL takes no other after a failure, and a driver may crash.
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
