"""What all simulators need from MuJoCo: its package, warnings, timers, stages and memory."""

import ctypes
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gmi_drl.errors import MachineError
from gmi_drl.tasks.sim.base import STATE_FIELDS

_logger = logging.getLogger(__name__)


def import_mujoco() -> tuple[Any, Any]:
    """Import `mujoco` and `mujoco.batch`. Raises MachineError if that fails."""
    try:
        import mujoco
        from mujoco import batch
    except ImportError as error:
        raise MachineError(
            f"The physics needs mujoco 4, which cannot be imported ({error}). Install it with: "
            "pip install 'gmi-drl[mujoco]'"
        ) from error
    return mujoco, batch


def send_warnings_to_logging(mujoco: Any) -> None:
    """Log MuJoCo's warnings, unless the user has set a handler. Without one MuJoCo writes a file, MUJOCO_LOG.TXT."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_logger.warning)


def stop_timers(mujoco: Any) -> None:
    """Stop MuJoCo from reading a clock around every stage (`mjData.timer`).

    MuJoCo's Python package sets that clock for the whole process and can only replace it. So the library's pointer to
    it is cleared. If the library is not found, the timers stay on.
    """
    for library in Path(mujoco.__file__).parent.glob("libmujoco.so.*"):
        ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None


def stage_to_refresh(mujoco: Any, model: Any, fields: Sequence[str]) -> int:
    """The stage (mjtStage) to compute after the last substep, so that `fields` are what `Sim.step` promises.

    It is mjSTAGE_NONE if only the state and acceleration sensors are read: those are current anyway, and the position
    and velocity stages cost a fifth of an Ant's step.
    """
    if "cfrc_ext" in fields:
        return int(mujoco.mjtStage.mjSTAGE_ACC.value)
    acceleration_only = (model.sensor_needstage == mujoco.mjtStage.mjSTAGE_ACC).all()
    current = STATE_FIELDS | {"sensordata"} if acceleration_only else STATE_FIELDS
    stage = mujoco.mjtStage.mjSTAGE_NONE if current.issuperset(fields) else mujoco.mjtStage.mjSTAGE_VEL
    return int(stage.value)


def warp_bytes(device: torch.device) -> int:
    """Bytes of this GPU that Warp holds in this process, which torch does not count; 0 without Warp or its pool."""
    warp: Any = sys.modules.get("warp")
    if warp is None or not warp.is_mempool_enabled(place := warp.device_from_torch(device)):
        return 0
    return int(warp.get_mempool_used_mem_current(place))
