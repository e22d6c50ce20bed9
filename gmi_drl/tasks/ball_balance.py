"""BallBalance: a tray on three legs catches a ball and brings it to rest (paper Table 6: 24 observations, 3 actions).

The task is that of IsaacGymEnvs (`tasks/ball_balance.py`, commit aeed2986), with MuJoCo's physics and a model of our
own. One observation, with every deliberate difference from there:

=====  ============================================================  ===================================================
index  what                                                          different from IsaacGymEnvs
=====  ============================================================  ===================================================
0-2    knee angles, rad: 0 is a right angle, larger is straighter
3-5    their velocities, rad/s
6-8    place of the ball in the world, m
9-11   its velocity in the world, m/s
12-14  outward force in each hip, 0.05 per N                         what the tray exerts on the leg in the last
15-17  torque about the outward axis in each hip, 0.05 per N m       substep, in the upper leg's frame; there forces on
18-20  upward force in each hip, 0.05 per N                          the tray, with the torque about y, which a free
21-23  torque about the upward axis in each hip, 0.05 per N m        hinge cannot carry, instead of the upward force
=====  ============================================================  ===================================================

The upper leg's axes are those of the leg at rest: outward, along the hinge, upward; they turn with it. In
IsaacGymEnvs each number is also clipped to 5, and a control step is one substep, here two.

Reward: 1 / (1 + distance of the ball from 0.7 m above the floor's centre) / (1 + speed of the ball): 0.97 with the
ball at rest on the tray as it starts, and 1 on a tray that is lifted by 3 cm. An episode ends when the ball is below
0.15 m.

An action moves the targets of the knees' position motors, by up to 0.2 rad in a step, within the knees' limits. The
targets are the simulator's `ctrl`. The motors exert at most 40 N m (`ball_balance_mjcf.py` says why).

A new episode starts with the robot at rest and the ball in the air, up to 0.5 m off the centre and 1 to 2 m high. It
comes down at 5 m/s and inwards at up to 5 m/s, the less the nearer it is.
"""

from math import pi

import torch
from torch import Tensor

from gmi_drl.tasks.ball_balance_mjcf import KNEE_RANGE_RAD, START_QPOS, ball_balance_mjcf
from gmi_drl.tasks.constants import constant
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import TASK_SPECS

REST_M = (0.0, 0.0, 0.7)
LOST_HEIGHT_M = 0.15
TARGET_STEP_RAD = 0.2
FARTHEST_START_M = 0.5
NEAREST_START_M = 0.001
FASTEST_START_M_PER_S = 5.0
_SPEC = TASK_SPECS["ball_balance"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 24]` from qpos `[N, 20]`, qvel `[N, 18]` and sensordata `[N, 18]`; the action is not shown."""
    qpos, qvel = fields["qpos"], fields["qvel"]
    forces, torques = (0.05 * fields["sensordata"]).view(-1, 2, 3, 3).unbind(1)  # [N, leg, axis] each
    felt = (forces[:, :, 0], torques[:, :, 0], forces[:, :, 2], torques[:, :, 2])
    return torch.cat((qpos[:, 8:13:2], qvel[:, 7:12:2], qpos[:, 13:16], qvel[:, 12:15], *felt), dim=1)


def control(fields: Fields, action: Tensor) -> Tensor:
    """Targets of the knees `[N, 3]`, rad: the last targets, moved by the action."""
    return torch.add(fields["ctrl"], action, alpha=TARGET_STEP_RAD).clamp_(*KNEE_RANGE_RAD)


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` from the ball's place and velocity in `obs`, and whether the ball is lost, bool `[N]`."""
    away = torch.linalg.vector_norm(obs[:, 6:9] - constant(REST_M, obs.device), dim=1)
    speed = torch.linalg.vector_norm(obs[:, 9:12], dim=1)
    return ((1 + away) * (1 + speed)).reciprocal_(), obs[:, 8] < LOST_HEIGHT_M


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The reward as its only term, because it is a product."""
    return {"near_and_slow": reward_done(obs, action, before, after)[0]}


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 20]`, qvel `[N, 18]` and ctrl `[N, 3]`.

    The noise `[N, 4]`, uniform in [-1, 1), sets the ball's distance, direction, height and speed.
    """
    away, bearing, height, speed = noise.unbind(1)
    nearness = (1 - away) / 2
    outwards = torch.stack(((pi * bearing).cos(), (pi * bearing).sin()), dim=1)
    qpos, qvel = constant(START_QPOS, noise.device).repeat(len(noise), 1), noise.new_zeros(len(noise), 18)
    radius = FARTHEST_START_M + (NEAREST_START_M - FARTHEST_START_M) * nearness
    qpos[:, 13:15] = radius[:, None] * outwards
    qpos[:, 15].add_(height, alpha=0.5)
    qvel[:, 12:14] = -(FASTEST_START_M_PER_S * (1 - nearness) * (1 + speed) / 2)[:, None] * outwards
    qvel[:, 14] = -FASTEST_START_M_PER_S
    return {"qpos": qpos, "qvel": qvel, "ctrl": noise.new_zeros(len(noise), 3)}


BALL_BALANCE = TaskDefinition(
    spec=_SPEC,
    build_mjcf=ball_balance_mjcf,
    substeps=2,
    fields=("qpos", "qvel", "ctrl", "sensordata"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=4,
    reset_state=reset_state,
    control=control,
)
