"""What cases need. Each function returns None, or what is missing with its remedy. All are cheap."""

import shutil
from functools import cache
from importlib.util import find_spec

from gmi_drl.config.physics import has_warp
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import allowed_cores, this_node, visible_gpus
from gmi_drl.gmi.inventory.cores import has_bf16
from gmi_drl.gmi.utilisation import gpm_obstacle
from gmi_drl.layout.backends import BACKENDS


def package(module: str, extra: str) -> str | None:
    """A package, which an extra of gmi-drl installs."""
    return None if find_spec(module) else f"it needs {module}: pip install 'gmi-drl[{extra}]'"


def cores(count: int) -> str | None:
    """This many cores for this process."""
    has = len(allowed_cores())
    return None if has >= count else f"it needs {count} cores, this process may use {has}: widen its affinity or quota"


def bf16_on_cores() -> str | None:
    """Cores that multiply in bfloat16: `learner.bf16` is refused on others."""
    return None if has_bf16() else "it needs cores with bfloat16 (AVX512-BF16 or AMX), these have none"


def simulation_on_cores(count: int) -> str | None:
    """This many physical cores for this process, and MuJoCo."""
    has = len(this_node().cpu.physical)
    few = None if has >= count else f"it needs {count} physical cores, this process may use {has}"
    return few or package("mujoco", "mujoco")


@cache
def first_gpu() -> tuple[str | None, str | None]:
    """UUID of the first GPU that this process may use, or why there is none.

    Cached, because a list of all cases calls this dozens of times, and opening NVML may take a second.
    """
    try:
        gpus = visible_gpus()
    except GmiError as error:
        return None, str(error)
    return (gpus[0].uuid, None) if gpus else (None, "it needs a GPU, but NVML shows none to this process")


def warp_on_gpu() -> str | None:
    """A GPU, and MuJoCo Warp to simulate on it."""
    _, missing = first_gpu()
    return missing or (None if has_warp() else "it needs MuJoCo Warp 4: pip install 'gmi-drl[warp]'")


def mps() -> str | None:
    """The control program of MPS, which comes with the driver."""
    if "mps" not in BACKENDS.names:
        return "it needs the backend mps, which this version does not have"
    return (
        None
        if shutil.which("nvidia-cuda-mps-control")
        else "it needs nvidia-cuda-mps-control, which comes with the driver"
    )


def gpm() -> str | None:
    """Counters of SM activity (GPM)."""
    uuid, missing = first_gpu()
    return missing if uuid is None else gpm_obstacle(uuid)
