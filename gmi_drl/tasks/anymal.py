"""Anymal: a four-legged robot of 30 kg follows a command (paper Table 6: 48 observations, 12 actions).

The task is that of IsaacGymEnvs (`tasks/anymal.py`, commit aeed2986), with MuJoCo's physics and a model of our own. One
observation, with every deliberate difference from there (there each number is also clipped to 5):

=====  ============================================================  ===================================================
index  what                                                          different from IsaacGymEnvs
=====  ============================================================  ===================================================
0-2    velocity in the base's frame, 2 per m/s
3-5    angular velocity in the base's frame, 0.25 per rad/s
6-8    direction of gravity in the base's frame                      there turned by the base's rotation, not into it
9-11   the command: velocity forward and to the left, 2 per m/s,
       and yaw rate, 0.25 per rad/s
12-23  angles of HAA, HFE and KFE of the legs LF, LH, RF, RH, less
       those of the stance, rad
24-35  their velocities, 0.05 per rad/s
36-47  the last action, 0 at the start of an episode
=====  ============================================================  ===================================================

An action moves the targets of the drives by up to 0.5 rad from the stance; the drives have 85 N m/rad, 2 N m s/rad and
80 N m at most.

Reward: 0.02 s times this sum, or 0 if it is negative: exp(-4 e) for the squared error e of the horizontal velocity +
0.5 exp(-4 e) for that of the yaw rate - 2.5e-5 times the squared torques of the drives. The episode ends when the base
or a thigh touches the floor with more than 1 N. The command stays the same for an episode; it is stored as the position
of the body `command`.

A new episode starts at height 0.62 m, at rest but for noise: joints at 0.5 to 1.5 times the stance, with up to 0.1
rad/s. The command is uniform within 2 m/s, 1 m/s and 1 rad/s.
"""

from functools import cache

import torch
from torch import Tensor

from gmi_drl.tasks.anymal_mjcf import DEFAULT_JOINTS_RAD, GUARDED, START_HEIGHT_M, anymal_mjcf
from gmi_drl.tasks.constants import constant
from gmi_drl.tasks.rotation import into_frame, rotation_matrix
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import TASK_SPECS

TARGET_RANGE_RAD = 0.5
TOUCH_N = 1.0
LARGEST_COMMAND = (2.0, 1.0, 1.0)
"""Forward and to the left, m/s, and yaw rate, rad/s."""

_SPEC = TASK_SPECS["anymal"]
_FORCES = 3 * len(GUARDED)
_LINEAR, _ANGULAR, _JOINT_VELOCITY = 2.0, 0.25, 0.05


def control(fields: Fields, action: Tensor) -> Tensor:
    """Targets of the drives `[N, 12]`, rad."""
    return torch.add(constant(DEFAULT_JOINTS_RAD, action.device), action, alpha=TARGET_RANGE_RAD)


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 48]` from qpos `[N, 19]`, qvel `[N, 18]`, mocap_pos `[N, 1, 3]` and last action `[N, 12]`."""
    qpos, qvel = fields["qpos"], fields["qvel"]
    rotation = rotation_matrix(qpos[:, 3:7].T.contiguous())
    velocity = into_frame(rotation, qvel[:, :3].T)
    measured = (velocity.T, qvel[:, 3:6], -rotation[2].T, fields["mocap_pos"][:, 0], qpos[:, 7:], qvel[:, 6:], action)
    offset, scale = _scaling(qpos.device)
    return torch.addcmul(offset, torch.cat(measured, dim=1), scale)


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step from `before` to `after` and `obs`, and whether the robot has fallen, bool `[N]`."""
    forces, torques = after["sensordata"][:, :_FORCES], after["sensordata"][:, _FORCES:]
    velocity_error = (obs[:, 9:11] - obs[:, 0:2]).div_(_LINEAR).square_().sum(1)
    yaw_rate_error = (obs[:, 11] - obs[:, 5]).div_(_ANGULAR).square_()
    tracking = torch.exp(-4 * velocity_error).add_(torch.exp(-4 * yaw_rate_error), alpha=0.5)
    reward = tracking.sub_(torques.square().sum(1), alpha=2.5e-5).clamp_(min=0).mul_(_SPEC.step_s)
    squared_n = forces.square().reshape(-1, len(GUARDED), 3).sum(2)
    return reward, (squared_n > TOUCH_N**2).any(1)


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, by the names of Isaac Lab. `at_least_zero` lifts a negative sum to 0."""
    velocity_error = ((obs[:, 9:11] - obs[:, 0:2]) / _LINEAR).square().sum(1)
    yaw_rate_error = ((obs[:, 11] - obs[:, 5]) / _ANGULAR).square()
    terms = {
        "track_lin_vel_xy_exp": torch.exp(-4 * velocity_error) * _SPEC.step_s,
        "track_ang_vel_z_exp": torch.exp(-4 * yaw_rate_error) * (0.5 * _SPEC.step_s),
        "dof_torques_l2": after["sensordata"][:, _FORCES:].square().sum(1) * (-2.5e-5 * _SPEC.step_s),
    }
    return terms | {"at_least_zero": (-sum(terms.values(), torch.zeros_like(yaw_rate_error))).clamp(min=0)}


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 19]` and qvel `[N, 18]`, and their commands, mocap_pos `[N, 1, 3]`.

    The noise is `[N, 27]`, uniform in [-1, 1).
    """
    qpos, qvel = noise.new_zeros(len(noise), 19), noise.new_zeros(len(noise), 18)
    qpos[:, 2], qpos[:, 3] = START_HEIGHT_M, 1.0
    qpos[:, 7:] = constant(DEFAULT_JOINTS_RAD, noise.device) * (1 + 0.5 * noise[:, :12])
    qvel[:, 6:] = 0.1 * noise[:, 12:24]
    command = noise[:, 24:] * constant(LARGEST_COMMAND, noise.device)
    return {"qpos": qpos, "qvel": qvel, "mocap_pos": command[:, None]}


@cache
def _scaling(device: torch.device) -> tuple[Tensor, Tensor]:
    """Offset and scale of the observation `[48]`."""
    base = (*[_LINEAR] * 3, *[_ANGULAR] * 3, *[1.0] * 3, _LINEAR, _LINEAR, _ANGULAR)
    scale = torch.tensor((*base, *[1.0] * 12, *[_JOINT_VELOCITY] * 12, *[1.0] * 12), device=device)
    offset = torch.zeros_like(scale)
    offset[12:24] = -constant(DEFAULT_JOINTS_RAD, device)
    return offset, scale


ANYMAL = TaskDefinition(
    spec=_SPEC,
    build_mjcf=anymal_mjcf,
    substeps=2,
    fields=("qpos", "qvel", "mocap_pos", "sensordata"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=27,
    reset_state=reset_state,
    control=control,
)
