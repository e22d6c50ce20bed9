"""Hopper-v5: a leg in a plane hops forward (`gymnasium/envs/mujoco/hopper_v5.py`, 1.4).

Observations `[N, 11]` are qpos without x (5) and qvel (6), clipped to [-10, 10]. Reward = velocity along x + 1 while
healthy - 0.001 times the squared actions. An episode ends where the torso is not above 0.7 m, leans by 0.2 rad, or
another number of the state reaches 100. 4 substeps of 2 ms by RK4.
"""

from functools import partial

import torch
from torch import Tensor

from gmi_drl.tasks.mujoco_v5.episode import (
    MOST_SPEED,
    is_within,
    observe_plane,
    running_terms,
    start_state,
    x_velocity,
)
from gmi_drl.tasks.mujoco_v5.model import gymnasium_mjcf
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import MUJOCO_SPECS

HEALTHY_HEIGHT_M = (0.7, float("inf"))
HEALTHY_ANGLE_RAD = (-0.2, 0.2)
HEALTHY_STATE = (-100.0, 100.0)
CONTROL_COST = 1e-3
REST = (0.0, 1.25, 0.0, 0.0, 0.0, 0.0)
RESET_NOISE = 5e-3
_SPEC = MUJOCO_SPECS["mujoco:Hopper-v5"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 11]` from qpos and qvel `[N, 6]`."""
    return observe_plane(fields, MOST_SPEED)


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after`, and whether the robot is unhealthy, bool `[N]`."""
    is_healthy = _is_healthy(after)
    reward = x_velocity(before, after, _SPEC.step_s) + is_healthy - CONTROL_COST * action.square().sum(1)
    return reward.float(), ~is_healthy


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, as in gymnasium's `info`."""
    return running_terms(before, after, action, _is_healthy(after), _SPEC.step_s, CONTROL_COST)


def _is_healthy(after: Fields) -> Tensor:
    qpos, state = after["qpos"], torch.cat((after["qpos"][:, 2:], after["qvel"]), dim=1)
    stands = is_within(qpos[:, 1], HEALTHY_HEIGHT_M) & is_within(qpos[:, 2], HEALTHY_ANGLE_RAD)
    return stands & is_within(state, HEALTHY_STATE).all(1)


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos and qvel `[N, 6]`, from noise `[N, 12]`, uniform in [-1, 1)."""
    return start_state(noise, REST, RESET_NOISE)


HOPPER = TaskDefinition(
    spec=_SPEC,
    build_mjcf=partial(gymnasium_mjcf, "hopper.xml"),
    substeps=4,
    fields=("qpos", "qvel"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=12,
    reset_state=reset_state,
    remembered=("qpos",),
    as_stepped=True,
)
