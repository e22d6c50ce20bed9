"""MuJoCo's own timers."""

import ctypes
from pathlib import Path
from typing import Any


def stop_timers(mujoco: Any) -> None:
    """Let MuJoCo read no clock: doing so around every stage, for `mjData.timer`, takes a tenth of a small robot's step.

    Its Python package sets that clock, for the whole process, and can replace it; only the library's pointer takes it
    away. Where the library is not found, the timers go on.
    """
    for library in Path(mujoco.__file__).parent.glob("libmujoco.so.*"):
        ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None
