"""HalfCheetah-v5: a cheetah in a plane runs forward (`gymnasium/envs/mujoco/half_cheetah_v5.py`, 1.4).

Observations `[N, 17]` are qpos without x (8) and qvel (9). Reward = velocity along x - 0.1 times the squared actions.
No episode ends before its 1000 steps. 5 substeps of 10 ms by the Euler method.
"""

from functools import partial

import torch
from torch import Tensor

from gmi_drl.tasks.mujoco_v5.episode import observe_plane, start_state, x_velocity
from gmi_drl.tasks.mujoco_v5.model import gymnasium_mjcf
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import MUJOCO_SPECS

CONTROL_COST = 0.1
REST = (0.0,) * 9
RESET_NOISE = 0.1
_SPEC = MUJOCO_SPECS["mujoco:HalfCheetah-v5"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 17]` from qpos and qvel `[N, 9]`."""
    return observe_plane(fields)


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after`, and False (no episode ends by itself), bool `[N]`."""
    reward = x_velocity(before, after, _SPEC.step_s) - CONTROL_COST * action.square().sum(1)
    return reward.float(), torch.zeros_like(reward, dtype=torch.bool)


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, as in gymnasium's `info`."""
    forward = x_velocity(before, after, _SPEC.step_s).float()
    return {"reward_forward": forward, "reward_ctrl": -CONTROL_COST * action.square().sum(1)}


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos and qvel `[N, 9]`, from noise `[N, 18]`, uniform in [-1, 1)."""
    return start_state(noise, REST, RESET_NOISE, is_normal=True)


HALF_CHEETAH = TaskDefinition(
    spec=_SPEC,
    build_mjcf=partial(gymnasium_mjcf, "half_cheetah.xml"),
    substeps=5,
    fields=("qpos", "qvel"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=18,
    reset_state=reset_state,
    remembered=("qpos",),
    as_stepped=True,
)
