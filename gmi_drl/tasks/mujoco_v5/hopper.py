"""Hopper-v5: a leg in a plane hops forward (`gymnasium/envs/mujoco/hopper_v5.py`, 1.4).

Observations `[N, 11]` are qpos without x (5) and qvel (6), clipped to [-10, 10]. Reward = velocity along x + 1 while
healthy - 0.001 times the squared actions. An episode ends where the torso is not above 0.7 m, leans by 0.2 rad, or
another number of the state reaches 100. 4 substeps of 2 ms by RK4.
"""

import torch
from torch import Tensor

from gmi_drl.tasks.mujoco_v5.episode import healthy_runner, is_within
from gmi_drl.tasks.sim_task import Fields
from gmi_drl.workload import MUJOCO_SPECS

HEALTHY_HEIGHT_M = (0.7, float("inf"))
HEALTHY_ANGLE_RAD = (-0.2, 0.2)
HEALTHY_STATE = (-100.0, 100.0)
REST = (0.0, 1.25, 0.0, 0.0, 0.0, 0.0)


def _is_healthy(after: Fields) -> Tensor:
    qpos, state = after["qpos"], torch.cat((after["qpos"][:, 2:], after["qvel"]), dim=1)
    stands = is_within(qpos[:, 1], HEALTHY_HEIGHT_M) & is_within(qpos[:, 2], HEALTHY_ANGLE_RAD)
    return stands & is_within(state, HEALTHY_STATE).all(1)


HOPPER = healthy_runner(MUJOCO_SPECS["mujoco:Hopper-v5"], "hopper.xml", REST, _is_healthy)
