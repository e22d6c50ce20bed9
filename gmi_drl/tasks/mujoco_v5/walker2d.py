"""Walker2d-v5: two legs in a plane walk forward (`gymnasium/envs/mujoco/walker2d_v5.py`, 1.4).

Observations `[N, 17]` are qpos without x (8) and qvel (9), clipped to [-10, 10]. Reward = velocity along x + 1 while
healthy - 0.001 times the squared actions. An episode ends where the torso leaves 0.8 to 2 m or leans by 1 rad.
4 substeps of 2 ms by RK4.
"""

from torch import Tensor

from gmi_drl.tasks.mujoco_v5.episode import healthy_runner, is_within
from gmi_drl.tasks.sim_task import Fields
from gmi_drl.workload import MUJOCO_SPECS

HEALTHY_HEIGHT_M = (0.8, 2.0)
HEALTHY_ANGLE_RAD = (-1.0, 1.0)
REST = (0.0, 1.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def _is_healthy(after: Fields) -> Tensor:
    qpos = after["qpos"]
    return is_within(qpos[:, 1], HEALTHY_HEIGHT_M) & is_within(qpos[:, 2], HEALTHY_ANGLE_RAD)


WALKER2D = healthy_runner(MUJOCO_SPECS["mujoco:Walker2d-v5"], "walker2d_v5.xml", REST, _is_healthy)
