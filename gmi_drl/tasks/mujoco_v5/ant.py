"""Ant-v5: a four-legged robot runs forward (`gymnasium/envs/mujoco/ant_v5.py`, 1.4).

Observations `[N, 105]` are qpos without x and y (13), qvel (14) and the contact forces on the 13 bodies, clipped to
[-1, 1] (78). Reward = velocity of the torso along x + 1 while healthy - 0.5 times the squared actions - 0.0005 times
the squared clipped forces. An episode ends where the torso leaves 0.2 to 1 m. 5 substeps of 10 ms by RK4.
"""

from functools import partial

import torch
from torch import Tensor

from gmi_drl.tasks.mujoco_v5.episode import start_state
from gmi_drl.tasks.mujoco_v5.model import gymnasium_mjcf
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import MUJOCO_SPECS

HEALTHY_HEIGHT_M = (0.2, 1.0)
CONTROL_COST = 0.5
CONTACT_COST = 5e-4
REST = (0.0, 0.0, 0.75, 1.0, *(0.0,) * 11)
RESET_NOISE = 0.1
TORSO = 1
_SPEC = MUJOCO_SPECS["mujoco:Ant-v5"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 105]` from qpos `[N, 15]`, qvel `[N, 14]` and cfrc_ext `[N, 14, 6]` (body 0 is the world)."""
    forces = fields["cfrc_ext"][:, 1:].flatten(1).clamp(-1, 1)
    return torch.cat((fields["qpos"][:, 2:], fields["qvel"], forces), dim=1).float()


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after`, and whether the robot is unhealthy, bool `[N]`."""
    low, high = HEALTHY_HEIGHT_M
    height, forces = after["qpos"][:, 2], after["cfrc_ext"].flatten(1).clamp(-1, 1)
    is_healthy = (height >= low) & (height <= high)
    velocity = (after["xpos"][:, TORSO, 0] - before["xpos"][:, TORSO, 0]) / _SPEC.step_s
    costs = CONTROL_COST * action.square().sum(1) + CONTACT_COST * forces.square().sum(1)
    return (velocity + is_healthy - costs).float(), ~is_healthy


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, as in gymnasium's `info`."""
    low, high = HEALTHY_HEIGHT_M
    height, forces = after["qpos"][:, 2], after["cfrc_ext"].flatten(1).clamp(-1, 1)
    forward = (after["xpos"][:, TORSO, 0] - before["xpos"][:, TORSO, 0]) / _SPEC.step_s
    return {
        "reward_forward": forward.float(),
        "reward_survive": ((height >= low) & (height <= high)).float(),
        "reward_ctrl": -CONTROL_COST * action.square().sum(1),
        "reward_contact": (-CONTACT_COST * forces.square().sum(1)).float(),
    }


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 15]` and qvel `[N, 14]`, from noise `[N, 29]`, uniform in [-1, 1)."""
    return start_state(noise, REST, RESET_NOISE, is_normal=True)


ANT = TaskDefinition(
    spec=_SPEC,
    build_mjcf=partial(gymnasium_mjcf, "ant.xml"),
    substeps=5,
    fields=("qpos", "qvel", "xpos", "cfrc_ext"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=29,
    reset_state=reset_state,
    remembered=("xpos",),
    as_stepped=True,
)
