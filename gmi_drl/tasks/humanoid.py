"""Humanoid: a human figure runs towards a far target (paper Table 6: 108 observations, 21 actions).

The task is that of IsaacGymEnvs (`tasks/humanoid.py`, commit aeed2986), with MuJoCo's physics and a model of our own.
One observation, with every deliberate difference from there:

======  ===========================================================  ===================================================
index   what                                                         different from IsaacGymEnvs
======  ===========================================================  ===================================================
0       height of the torso, m
1-3     velocity in the torso's frame, m/s
4-6     angular velocity in the torso's frame, 0.25 per rad/s
7       yaw, rad, in [-pi, pi]
8       roll, rad, in [-pi, pi]
9       angle from the heading to the target, rad, left is positive  the true angle in [-pi, pi]; there z stands for y
10      up projection: the torso's z axis along the world's
11      heading projection: the torso's x axis along the target's
        direction on the ground
12-32   joint angles, -1 and 1 at their limits: abdomen z, y, x;     right and left have the same signs, and zero hangs
        hip x, z, y, knee, ankle y, x of the right, then the left    the arms down
        leg; shoulder 1, 2 and elbow of the right, then the left arm
33-53   their velocities, 0.1 per rad/s
54-74   torques of the motors in the last substep, 0.01 per N m
75-86   force and torque in the right, then the left ankle (fx fy    what the shin exerts on the foot in the last
        fz tx ty tz), 0.01 per N and N m                             substep, in the foot's frame
87-107  the last action, 0 at the start of an episode
======  ===========================================================  ===================================================

Reward: progress towards the target in m/s + 2 for living + 0.1 when upright + up to 0.5 for the heading - 0.01 times
the squared actions - 0.05 times |action x observed joint velocity| - 0.25 times how far each joint is into the last 2 %
before its limit; the last two are weighted by a motor's torque as a share of the strongest one's. The step in which the
torso falls below 0.8 m has reward -1 and ends the episode. Progress is computed as for the Ant.

A new episode starts at height 1.34 m, the soles 6 cm above the floor, at rest but for noise: joints 0.2
rad around zero, held within their limits, and joint velocities 0.1 rad/s; the root has neither offset nor velocity.
"""

from functools import cache

import torch
from torch import Tensor

from gmi_drl.tasks.humanoid_mjcf import JOINT_RANGES_RAD, START_HEIGHT_M, TORQUES_NM, humanoid_mjcf
from gmi_drl.tasks.locomotion import observation, running_reward, running_terms, scaling, start_state
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms, replaced
from gmi_drl.workload import TASK_SPECS

FALLEN_HEIGHT_M = 0.8
_SPEC = TASK_SPECS["humanoid"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 108]` from qpos `[N, 28]`, qvel `[N, 27]`, sensordata `[N, 33]` and last action `[N, 21]`."""
    return observation(fields, action, *_scaling(action.device))


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after` and `obs`, and whether the robot has fallen, bool `[N]`."""
    height, joints, joint_velocities = obs[:, 0], obs[:, 12:33], obs[:, 33:54]
    power = (action * joint_velocities).abs_()
    at_limit = (joints.abs() - 0.98).clamp_(min=0).div_(0.02)
    by_strength = power.mul_(0.05).add_(at_limit, alpha=0.25).mul_(_strength(obs.device))
    reward = running_reward(obs, before, after, step_s=_SPEC.step_s, alive=2.0)
    reward.sub_(action.square().mul_(0.01).add_(by_strength).sum(1))
    fallen = height < FALLEN_HEIGHT_M
    return reward.masked_fill(fallen, -1.0), fallen


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, by the names of Isaac Lab."""
    height, joints, joint_velocities = obs[:, 0], obs[:, 12:33], obs[:, 33:54]
    strength, at_limit = _strength(obs.device), (joints.abs() - 0.98).clamp(min=0) / 0.02
    costs = {
        "action_l2": -0.01 * action.square().sum(1),
        "energy": -0.05 * ((action * joint_velocities).abs() * strength).sum(1),
        "joint_pos_limits": -0.25 * (at_limit * strength).sum(1),
    }
    terms = running_terms(obs, before, after, step_s=_SPEC.step_s, alive=2.0) | costs
    return replaced(terms, height < FALLEN_HEIGHT_M, "fallen", -1.0)


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 28]` and qvel `[N, 27]`, from noise `[N, 42]`, uniform in [-1, 1)."""
    return start_state(noise, START_HEIGHT_M, JOINT_RANGES_RAD)


@cache
def _strength(device: torch.device) -> Tensor:
    """Torque of each motor as a share of the strongest one's `[21]`."""
    torques = torch.tensor(TORQUES_NM, device=device)
    return torques / torques.max()


@cache
def _scaling(device: torch.device) -> tuple[Tensor, Tensor]:
    """Offset and scale of the observation `[108]`."""
    root = [1.0] * 4 + [0.25] * 3 + [1.0] * 5
    return scaling(root, JOINT_RANGES_RAD, [0.1] * 21 + [0.01] * 33 + [1.0] * 21, device)


HUMANOID = TaskDefinition(
    spec=_SPEC,
    build_mjcf=humanoid_mjcf,
    substeps=2,
    fields=("qpos", "qvel", "sensordata"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=42,
    reset_state=reset_state,
    remembered=("qpos",),
)
