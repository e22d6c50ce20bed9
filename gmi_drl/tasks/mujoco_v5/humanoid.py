"""Humanoid-v5: a two-legged robot runs forward (`gymnasium/envs/mujoco/humanoid_v5.py`, 1.4).

Observations `[N, 348]` are qpos without x and y (22), qvel (23), and of the 13 bodies inertia (cinert, 130), velocity
(cvel, 78) and contact forces (cfrc_ext, 78), with the motors' torques (17) before the latter. Reward = 1.25 times the
velocity of the centre of mass along x + 5 while healthy - 0.1 times the squared controls - 0.0000005 times the squared
forces, 10 at most. An episode ends where the torso leaves 1 to 2 m. 5 substeps of 3 ms by RK4.
"""

from functools import partial

import torch
from torch import Tensor

from gmi_drl.tasks.mujoco_v5.episode import is_within, start_state
from gmi_drl.tasks.mujoco_v5.model import gymnasium_mjcf
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import MUJOCO_SPECS

HEALTHY_HEIGHT_M = (1.0, 2.0)
HEALTHY_REWARD = 5.0
FORWARD_REWARD = 1.25
CONTROL_COST = 0.1
CONTROL_RANGE = 0.4
CONTACT_COST = 5e-7
MOST_CONTACT_COST = 10.0
REST = (0.0, 0.0, 1.4, 1.0, *(0.0,) * 20)
RESET_NOISE = 1e-2
_SPEC = MUJOCO_SPECS["mujoco:Humanoid-v5"]


def control(fields: Fields, action: Tensor) -> Tensor:
    """Controls `[N, 17]`, whose range is [-0.4, 0.4], from actions `[N, 17]` in [-1, 1]."""
    return CONTROL_RANGE * action


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 348]`; of 14 bodies the first is the world."""
    bodies = [fields[name][:, 1:].flatten(1) for name in ("cinert", "cvel", "cfrc_ext")]
    state = (fields["qpos"][:, 2:], fields["qvel"])
    return torch.cat((*state, *bodies[:2], fields["qfrc_actuator"][:, 6:], bodies[2]), dim=1).float()


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after`, and whether the robot is unhealthy, bool `[N]`.

    The world's subtree is the whole robot, so its subtree_com `[N, 14, 3]` is the centre of mass.
    """
    is_healthy = is_within(after["qpos"][:, 2], HEALTHY_HEIGHT_M)
    velocity = (after["subtree_com"][:, 0, 0] - before["subtree_com"][:, 0, 0]) / _SPEC.step_s
    contact_cost = CONTACT_COST * after["cfrc_ext"].flatten(1).square().sum(1)
    costs = CONTROL_COST * control(after, action).square().sum(1) + contact_cost.clamp(max=MOST_CONTACT_COST)
    return (FORWARD_REWARD * velocity + HEALTHY_REWARD * is_healthy - costs).float(), ~is_healthy


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, as in gymnasium's `info`."""
    velocity = (after["subtree_com"][:, 0, 0] - before["subtree_com"][:, 0, 0]) / _SPEC.step_s
    contact_cost = CONTACT_COST * after["cfrc_ext"].flatten(1).square().sum(1)
    return {
        "reward_forward": (FORWARD_REWARD * velocity).float(),
        "reward_survive": HEALTHY_REWARD * is_within(after["qpos"][:, 2], HEALTHY_HEIGHT_M),
        "reward_ctrl": -CONTROL_COST * control(after, action).square().sum(1),
        "reward_contact": -contact_cost.clamp(max=MOST_CONTACT_COST).float(),
    }


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 24]` and qvel `[N, 23]`, from noise `[N, 47]`, uniform in [-1, 1)."""
    return start_state(noise, REST, RESET_NOISE)


HUMANOID = TaskDefinition(
    spec=_SPEC,
    build_mjcf=partial(gymnasium_mjcf, "humanoid.xml"),
    substeps=5,
    fields=("qpos", "qvel", "cinert", "cvel", "qfrc_actuator", "cfrc_ext", "subtree_com"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=47,
    reset_state=reset_state,
    remembered=("subtree_com",),
    control=control,
    as_stepped=True,
)
