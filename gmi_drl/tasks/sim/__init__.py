"""Simulators of many environments of one MuJoCo model, as batched torch tensors.

An environment is called a world in this package, as in MuJoCo Warp.
"""

from typing import TYPE_CHECKING, Any

from gmi_drl.config.physics import has_warp
from gmi_drl.errors import MachineError
from gmi_drl.tasks.sim.base import STATE_FIELDS, Sim
from gmi_drl.tasks.sim.native import NativeSim
from gmi_drl.tasks.sim.stepped import SteppedSim

if TYPE_CHECKING:
    from gmi_drl.tasks.sim.warp import WarpSim

__all__ = ["STATE_FIELDS", "NativeSim", "Sim", "SteppedSim", "WarpSim"]


def __getattr__(name: str) -> Any:
    """Import MuJoCo Warp, which takes seconds, only when WarpSim is used."""
    if name != "WarpSim":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    remedy = "Install them with: pip install 'gmi-drl[warp]'"
    if not has_warp():
        raise MachineError(f"MuJoCo Warp's physics needs mujoco-warp 4, which is not installed. {remedy}")
    try:
        from gmi_drl.tasks.sim.warp import WarpSim
    except ImportError as error:
        raise MachineError(
            f"MuJoCo Warp's physics needs mujoco-warp 4 and mujoco 4, which cannot be imported ({error}). {remedy}"
        ) from error
    return WarpSim
