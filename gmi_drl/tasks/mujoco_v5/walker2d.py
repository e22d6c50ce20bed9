"""Walker2d-v5: two legs in a plane walk forward (`gymnasium/envs/mujoco/walker2d_v5.py`, 1.4).

Observations `[N, 17]` are qpos without x (8) and qvel (9), clipped to [-10, 10]. Reward = velocity along x + 1 while
healthy - 0.001 times the squared actions. An episode ends where the torso leaves 0.8 to 2 m or leans by 1 rad.
4 substeps of 2 ms by RK4.
"""

from functools import partial

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

HEALTHY_HEIGHT_M = (0.8, 2.0)
HEALTHY_ANGLE_RAD = (-1.0, 1.0)
CONTROL_COST = 1e-3
REST = (0.0, 1.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
RESET_NOISE = 5e-3
_SPEC = MUJOCO_SPECS["mujoco:Walker2d-v5"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 17]` from qpos and qvel `[N, 9]`."""
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
    qpos = after["qpos"]
    return is_within(qpos[:, 1], HEALTHY_HEIGHT_M) & is_within(qpos[:, 2], HEALTHY_ANGLE_RAD)


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos and qvel `[N, 9]`, from noise `[N, 18]`, uniform in [-1, 1)."""
    return start_state(noise, REST, RESET_NOISE)


WALKER2D = TaskDefinition(
    spec=_SPEC,
    build_mjcf=partial(gymnasium_mjcf, "walker2d_v5.xml"),
    substeps=4,
    fields=("qpos", "qvel"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=18,
    reset_state=reset_state,
    remembered=("qpos",),
    as_stepped=True,
)
