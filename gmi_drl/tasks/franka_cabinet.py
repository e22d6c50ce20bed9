"""FrankaCabinet: a robot arm pulls a drawer open (paper Table 6: 23 observations, 9 actions).

The task is that of IsaacGymEnvs (`tasks/franka_cabinet.py`, commit aeed2986), with MuJoCo's physics and a model of our
own. One observation, with every deliberate difference from there:

=====  ============================================================  ===================================================
index  what                                                          different from IsaacGymEnvs
=====  ============================================================  ===================================================
0-8    joint positions, -1 and 1 at their limits: 7 hinges of the
       arm, left and right finger
9-17   their velocities, 0.1 per rad/s and per m/s
18-20  from the point between the fingertips to the middle of the
       drawer's bar, in the world, m
21     how far the drawer is open, m
22     its velocity, m/s
=====  ============================================================  ===================================================

There each number is also clipped to 5, and a control step is one substep, here two.

Reward of a step: 2 / (1 + (d / 0.2 m)^2)^2 at distance d from the bar (there d / 1 m, which hardly tells 10 cm from
none), twice that within 2 cm; up to 0.5 for a hand that points at the drawer with the left finger above the right one;
0.125 for fingers on both sides of the bar, and 5 per m that each of them is nearer to its height than 4 cm; 7.5 per m
that the drawer is open, and half as much again with fingers on both sides; 0.5 when it is open by 1 cm, and with
fingers on both sides 0.5 from 20 cm and 1 more from 39 cm; less 0.01 times the squared actions. A step in which a
fingertip is 4 cm behind the bar has reward -1.

An episode ends by its time limit only. There it also ends when the drawer is 39 cm open, which would cost a policy
the rewards of the remaining steps and so teach it to hold the drawer at 38 cm.

An action moves the targets of the position motors, by up to 0.125 rad in a step (fingers 0.0125 m), within the joints'
limits. The targets are the simulator's `ctrl`. Fingers have motors of 2000 N/m, there of 1000000 N/m. Gravity is off
for the whole scene, there for the robot. There are no loose things in the drawer.

A new episode starts at rest, with the drawer closed, the arm within 0.125 rad of a pose that points at the cabinet, 0.3
m from the bar, and the fingers 3 to 4 cm open. There the arm starts turned aside, and fingers have the arm's noise, so
that half of them start closed.
"""

import torch
from torch import Tensor

from gmi_drl.tasks.constants import constant, middle_and_half
from gmi_drl.tasks.franka_cabinet_mjcf import HANDLE_M, JOINT_RANGES, franka_cabinet_mjcf
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms, replaced
from gmi_drl.workload import TASK_SPECS

START_POSE = (0.0, -0.785, 0.0, -2.356, 0.0, 3.0, -0.785, 0.035, 0.035)
START_NOISE = (*(0.125,) * 7, 0.005, 0.005)
"""Largest distance of each joint from the pose at the start: rad, fingers m."""

TARGET_STEP = (*(0.125,) * 7, 0.0125, 0.0125)
"""How far a full action moves each target: rad, fingers m."""

NEAR_M = 0.2
BEHIND_BAR_M = 0.04
_SPEC = TASK_SPECS["franka_cabinet"]


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 23]` from qpos `[N, 10]`, qvel `[N, 10]` and sensordata `[N, 9]`; the action is not shown."""
    qpos, qvel = fields["qpos"], fields["qvel"]
    middle, half_range = middle_and_half(JOINT_RANGES, qpos.device)
    drawer, drawer_velocity = qpos[:, :1], qvel[:, :1]
    to_bar = _bar(drawer) - fields["sensordata"][:, :3]
    return torch.cat(((qpos[:, 1:] - middle) / half_range, 0.1 * qvel[:, 1:], to_bar, drawer, drawer_velocity), dim=1)


def control(fields: Fields, action: Tensor) -> Tensor:
    """Targets of the joints `[N, 9]`, rad and m: the last targets, moved by the action."""
    middle, half_range = middle_and_half(JOINT_RANGES, action.device)
    targets = torch.addcmul(fields["ctrl"], action, constant(TARGET_STEP, action.device))
    return targets.clamp_(middle - half_range, middle + half_range)


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]`, and False, bool `[N]`: nothing ends an episode but its time limit."""
    near, aligned, around, tight, behind = _posture(obs, after)
    drawer = after["qpos"][:, 0]
    reward = 2 * near + 0.25 * aligned + around * (0.125 + 5 * tight)
    reward += 7.5 * drawer * (1 + 0.5 * around) - 0.01 * action.square().sum(1)
    reward += 0.5 * (drawer > 0.01) + around * (0.5 * (drawer > 0.2) + (drawer > 0.39))
    return reward.masked_fill(behind, -1.0), torch.zeros_like(behind)


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, by the names of Isaac Lab."""
    near, aligned, around, tight, behind = _posture(obs, after)
    drawer = after["qpos"][:, 0]
    terms = {
        "approach_ee_handle": 2 * near,
        "align_ee_handle": 0.25 * aligned,
        "grasp_handle": around * (0.125 + 5 * tight),
        "open_drawer_bonus": 7.5 * drawer * (1 + 0.5 * around),
        "multi_stage_open_drawer": 0.5 * (drawer > 0.01) + around * (0.5 * (drawer > 0.2) + (drawer > 0.39)),
        "action_l2": -0.01 * action.square().sum(1),
    }
    return replaced(terms, behind, "behind_bar", -1.0)


def _posture(obs: Tensor, after: Fields) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Of hand and bar, `[N]` each: nearness, alignment, fingers on both sides (0 or 1), tightness, a tip far behind."""
    grasp, forwards, up = after["sensordata"].view(-1, 3, 3).unbind(1)
    drawer, fingers = after["qpos"][:, :1], after["qpos"][:, 8:]
    bar, away = _bar(drawer), torch.linalg.vector_norm(obs[:, 18:21], dim=1)
    left, right = grasp + up * fingers[:, :1], grasp - up * fingers[:, 1:]
    above, below = left[:, 2] - bar[:, 2], bar[:, 2] - right[:, 2]
    around = ((above > 0) & (below > 0)).float()

    near = (1 + (away / NEAR_M).square()).pow(-2) * (1 + (away <= 0.02).float())
    aligned = _signed_square(-forwards[:, 0]) + _signed_square(up[:, 2])
    behind = torch.minimum(left[:, 0], right[:, 0]) < bar[:, 0] - BEHIND_BAR_M
    return near, aligned, around, 0.08 - above.abs() - below.abs(), behind


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 10]` and ctrl `[N, 9]`, from noise `[N, 9]`, uniform in [-1, 1)."""
    middle, half_range = middle_and_half(JOINT_RANGES, noise.device)
    pose = torch.addcmul(constant(START_POSE, noise.device), noise, constant(START_NOISE, noise.device))
    pose = pose.clamp_(middle - half_range, middle + half_range)
    return {"qpos": torch.cat((torch.zeros_like(pose[:, :1]), pose), dim=1), "ctrl": pose}


def _bar(drawer: Tensor) -> Tensor:
    """Middle of the bar in the world `[N, 3]`, with the drawer `[N, 1]` m open."""
    zero = torch.zeros_like(drawer)
    return torch.cat((drawer, zero, zero), dim=1) + constant(HANDLE_M, drawer.device)


def _signed_square(cosine: Tensor) -> Tensor:
    return cosine * cosine.abs()


FRANKA_CABINET = TaskDefinition(
    spec=_SPEC,
    build_mjcf=franka_cabinet_mjcf,
    substeps=2,
    fields=("qpos", "qvel", "ctrl", "sensordata"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=9,
    reset_state=reset_state,
    control=control,
)
