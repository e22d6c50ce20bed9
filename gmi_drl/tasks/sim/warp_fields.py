"""Fields of MuJoCo Warp that a `Sim` returns as copies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.sim.warp_kernels import copy_where


@dataclass(frozen=True)
class KeptField:
    """One field of N worlds with K numbers each.

    Attributes:
        source: The array that MuJoCo Warp computes, Warp float array `[N, K]`.
        kept: The copy, `[N, K]`.
        tensor: The same memory as `kept`, shaped as in mjData `[N, ...]`.
        every_column: Warp bool array `[K]`, True.
        refreshed: Warp bool array `[K]`: the columns that the refresh after the last substep computes. Sensors of
            forces are not among them: a refresh of positions and velocities erases these, and they must describe the
            last substep.
    """

    source: Any
    kept: Any
    tensor: Tensor
    every_column: Any
    refreshed: Any

    def copy(self, rows: Any, columns: Any) -> None:
        """Launch a copy of these rows and columns, Warp bool arrays `[N]` and `[K]`."""
        wp.launch(copy_where, dim=self.source.shape, inputs=[rows, columns, self.source, self.kept])


def keep(mujoco: Any, model: Any, data: Any, names: Sequence[str], stage: int) -> dict[str, KeptField]:
    """Allocate copies of these fields on Warp's current device.

    Args:
        mujoco: The package.
        model: An MjModel.
        data: Warp's data.
        names: Names of the fields.
        stage: The stage that is computed after the last substep (`stage_to_refresh`).

    Raises:
        UsageError: There is no such field, or it is not float.
    """
    example = mujoco.MjData(model)
    kept = {}
    for name in names:
        if not hasattr(example, name) or not isinstance(array := getattr(data, name, None), wp.array):
            raise UsageError(f"MuJoCo Warp has no field '{name}'. Give names of mjData, such as sensordata or xpos.")
        if wp.to_torch(array).dtype != torch.float32:
            raise UsageError(f"Field '{name}' of MuJoCo Warp is not float, so it cannot be kept.")
        shape = (data.nworld, *np.shape(getattr(example, name)))
        source = wp.from_torch(wp.to_torch(array).reshape(data.nworld, -1))
        copy = wp.zeros(source.shape, dtype=float)
        columns = np.full(source.shape[1], stage != mujoco.mjtStage.mjSTAGE_NONE)
        if name == "sensordata" and stage == mujoco.mjtStage.mjSTAGE_VEL:
            needs = np.repeat(model.sensor_needstage, model.sensor_dim)
            columns = needs != mujoco.mjtStage.mjSTAGE_ACC
        kept[name] = KeptField(
            source=source,
            kept=copy,
            tensor=wp.to_torch(copy).view(shape),
            every_column=wp.ones(source.shape[1], dtype=bool),
            refreshed=wp.array(columns, dtype=bool),
        )
    return kept
