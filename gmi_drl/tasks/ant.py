"""Ant: a four-legged robot runs towards a far target (paper Table 6: 60 observations, 8 actions).

The task is that of IsaacGymEnvs (`tasks/ant.py`, commit aeed2986), with MuJoCo's physics and a model of our own. One
observation, with every deliberate difference from there:

=====  ============================================================  ===================================================
index  what                                                          different from IsaacGymEnvs
=====  ============================================================  ===================================================
0      height of the torso, m
1-3    velocity in the torso's frame, m/s
4-6    angular velocity in the torso's frame, rad/s
7      yaw, rad                                                      in [-pi, pi], not [0, 2 pi): the jump lies behind
8      roll, rad                                                     in [-pi, pi], not [0, 2 pi)
9      angle from the heading to the target, rad, left is positive   the true angle in [-pi, pi]; there z stands for y
10     up projection: the torso's z axis along the world's
11     heading projection: the torso's x axis along the target's
       direction on the ground
12-19  hip and knee angles of each leg, -1 and 1 at their limits     knees have one sign: 1 is a folded leg in all four
20-27  their velocities, 0.2 per rad/s                               the same signs
28-51  force and torque in each knee (fx fy fz tx ty tz), 0.1 per N  what the thigh exerts on the shin in the last
       and N m                                                       substep, in the shin's frame
52-59  the last action, 0 at the start of an episode
=====  ============================================================  ===================================================

Reward: progress towards the target in m/s + 0.5 for living + 0.1 when upright + up to 0.5 for the heading - 0.005 times
the squared actions - 0.05 times |action x observed joint velocity| - 0.1 per joint above 0.99 of its range; or -2 for
the step in which the torso falls below 0.31 m, which ends the episode. There, progress is the difference of two
potentials of 60000, which float32 holds to 0.004 m/s; here the same difference is taken without that loss.

A new episode starts at height 0.5 m (there 0.44), at rest but for noise: joints 0.2 rad around zero, held within their
limits, and joint velocities 0.1 rad/s; the root has neither offset nor velocity.
"""

from functools import cache

import torch
from torch import Tensor

from gmi_drl.tasks.ant_mjcf import JOINT_RANGES_RAD, START_HEIGHT_M, ant_mjcf
from gmi_drl.tasks.locomotion import ROOT_SIZE, observation, running_reward, running_terms, scaling, start_state
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms, replaced
from gmi_drl.workload import TASK_SPECS

FALLEN_HEIGHT_M = 0.31
_SPEC = TASK_SPECS["ant"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 60]` from qpos `[N, 15]`, qvel `[N, 14]`, sensordata `[N, 24]` and the last action `[N, 8]`."""
    return observation(fields, action, *_scaling(action.device))


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after` and `obs`, and whether the robot has fallen, bool `[N]`."""
    height, joints, joint_velocities = obs[:, 0], obs[:, 12:20], obs[:, 20:28]
    reward = running_reward(obs, before, after, step_s=_SPEC.step_s, alive=0.5)
    power = (action * joint_velocities).abs_()
    reward.sub_(action.square().mul_(0.005).add_(power, alpha=0.05).add_(joints > 0.99, alpha=0.1).sum(1))
    fallen = height < FALLEN_HEIGHT_M
    return reward.masked_fill(fallen, -2.0), fallen


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, by the names of Isaac Lab."""
    height, joints, joint_velocities = obs[:, 0], obs[:, 12:20], obs[:, 20:28]
    costs = {
        "action_l2": -0.005 * action.square().sum(1),
        "energy": -0.05 * (action * joint_velocities).abs().sum(1),
        "joint_pos_limits": -0.1 * (joints > 0.99).sum(1),
    }
    terms = running_terms(obs, before, after, step_s=_SPEC.step_s, alive=0.5) | costs
    return replaced(terms, height < FALLEN_HEIGHT_M, "fallen", -2.0)


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 15]` and qvel `[N, 14]`, from noise `[N, 16]`, uniform in [-1, 1)."""
    return start_state(noise, START_HEIGHT_M, JOINT_RANGES_RAD)


@cache
def _scaling(device: torch.device) -> tuple[Tensor, Tensor]:
    """Offset and scale of the observation `[60]`."""
    return scaling([1.0] * ROOT_SIZE, JOINT_RANGES_RAD, [0.2] * 8 + [0.1] * 24 + [1.0] * 8, device)


ANT = TaskDefinition(
    spec=_SPEC,
    build_mjcf=ant_mjcf,
    substeps=2,
    fields=("qpos", "qvel", "sensordata"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=16,
    reset_state=reset_state,
    remembered=("qpos",),
)
