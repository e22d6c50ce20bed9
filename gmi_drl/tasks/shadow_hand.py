"""ShadowHand: a hand turns a block to a goal, then to the next (paper Table 6: 211 observations, 20 actions).

The task is that of IsaacGymEnvs (`tasks/shadow_hand.py`, commit aeed2986, observations "full_state"), with MuJoCo's
physics and a model of our own. An action is a target for each motor, -1 and 1 at the joint's limits. One observation,
held within [-5, 5], with every deliberate difference from there; quaternions are MuJoCo's (w, x, y, z), there
(x, y, z, w):

=======  ==========================================================  ===================================================
index    what                                                        different from IsaacGymEnvs
=======  ==========================================================  ===================================================
0-23     joint angles, -1 and 1 at their limits: wrist, first,
         middle, ring and little finger, thumb
24-47    their velocities, 0.2 per rad/s
48-71    torques of their motors, 10 per N m                         0 for the distal joints of the fingers, which
                                                                     follow the middle ones without a motor
72-78    position of the block, m, and its quaternion                the origin is on the floor, below the palm
79-81    its velocity, m/s
82-84    its angular velocity in the world, 0.2 per rad/s
85-91    position of the goal, m, and its quaternion                 the same origin
92-95    quaternion of the turn from the goal to the block           with w >= 0: q and -q are one turn
96-160   of each fingertip: position, quaternion, velocity, angular  of the end of the last link, there of its beginning
         velocity in the world
161-190  force and torque in each fingertip (fx fy fz tx ty tz),     what the middle link exerts on the distal one in
         10 per N and N m                                            the last substep, about the fingertip
191-210  the last action, 0 at the start of an episode
=======  ==========================================================  ===================================================

Reward: -10 times the block's distance from the goal, m, + 1 / (angle to the goal, rad + 0.1) - 0.0002 times the squared
actions + 250 when that angle is at most 0.1; the environment then gets a new goal. An episode ends when the block is
0.24 m away from the goal.

A new episode starts at rest with the block above the palm, turned about its x axis and then its y axis by any angle and
0.01 m off its place in each direction; the joints are at a fifth of random angles within their limits, the distal ones
of the fingers as bent as the middle ones (there independent). The goal's turn is drawn as the block's. The block is
that of OpenAI's environments, 5 cm and 71 g (there 6.5 cm), and gravity pulls at the hand, too (there at the block).
"""

from functools import cache
from math import pi

import torch
from torch import Tensor

from gmi_drl.tasks.constants import constant, middle_and_half
from gmi_drl.tasks.rotation import multiply, rotation_matrix
from gmi_drl.tasks.shadow_hand_mjcf import (
    BLOCK_START_M,
    GOAL_DROP_M,
    JOINT_RANGES_RAD,
    JOINTS,
    MOTORS,
    shadow_hand_mjcf,
)
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import TASK_SPECS

REACHED_RAD = 0.1
LOST_M = 0.24
REACHED_BONUS = 250.0
GOAL_M = (*BLOCK_START_M[:2], BLOCK_START_M[2] - GOAL_DROP_M)
_SPEC = TASK_SPECS["shadow_hand"]
_HINGES = len(JOINTS)


def control(fields: Fields, action: Tensor) -> Tensor:
    """Target angles of the motors `[N, 20]`, rad."""
    middle, half_range = _motor_ranges(action.device)
    return torch.addcmul(middle, action, half_range)


def observe(fields: Fields, action: Tensor) -> Tensor:
    """Observation `[N, 211]` from qpos `[N, 31]`, qvel `[N, 30]`, sensordata `[N, 119]` and mocap_quat `[N, 1, 4]`."""
    qpos, qvel, sensors = fields["qpos"], fields["qvel"], fields["sensordata"]
    turn, goal_turn = qpos[:, _HINGES + 3 :], fields["mocap_quat"][:, 0]
    spin = (rotation_matrix(turn.T.contiguous()) * qvel[:, _HINGES + 3 :].T).sum(1).T
    goal = constant(GOAL_M, qpos.device).expand(len(qpos), 3)
    block = (qpos[:, _HINGES:], qvel[:, _HINGES : _HINGES + 3], spin, goal, goal_turn, difference(turn, goal_turn))
    hand = (qpos[:, :_HINGES], qvel[:, :_HINGES], sensors[:, :_HINGES])
    measured = torch.cat((*hand, *block, sensors[:, _HINGES:], action), dim=1)
    offset, scale = _scaling(qpos.device)
    return torch.addcmul(offset, measured, scale).clamp_(-5, 5)


def difference(turn: Tensor, goal_turn: Tensor) -> Tensor:
    """The turn from a goal to a block, quaternions `[N, 4]` with w >= 0."""
    conjugate = torch.cat((goal_turn[:, :1], -goal_turn[:, 1:]), dim=1)
    turned = multiply(turn.T, conjugate.T)
    return torch.where(turned[0] < 0, -turned, turned).T


def angle(turned: Tensor) -> Tensor:
    """Angles `[N]`, rad in [0, pi], of quaternions `[N, 4]`."""
    sine: Tensor = torch.linalg.vector_norm(turned[:, 1:], dim=1)
    result: Tensor = sine.clamp_(max=1).asin_()
    return 2 * result


def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
    """Reward `[N]` of the step that led to `obs`, and whether the block is lost, bool `[N]`."""
    away, left = torch.linalg.vector_norm(obs[:, 72:75] - obs[:, 85:88], dim=1), angle(obs[:, 92:96])
    reward = 1 / (left + 0.1) - 10 * away - 0.0002 * action.square().sum(1)
    return reward.add_(left <= REACHED_RAD, alpha=REACHED_BONUS), away >= LOST_M


def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
    """The terms of a step's reward, by the names of Isaac Lab."""
    away, left = torch.linalg.vector_norm(obs[:, 72:75] - obs[:, 85:88], dim=1), angle(obs[:, 92:96])
    return {
        "track_orientation_inv_l2": 1 / (left + 0.1),
        "track_pos_l2": -10 * away,
        "action_l2": -0.0002 * action.square().sum(1),
        "success_bonus": REACHED_BONUS * (left <= REACHED_RAD),
    }


def new_goal(fields: Fields, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Which environments `[N]` have reached their goal, and new goals, mocap_quat `[N, 1, 4]`, from noise `[N, 31]`."""
    turned = difference(fields["qpos"][:, _HINGES + 3 :], fields["mocap_quat"][:, 0])
    return angle(turned) <= REACHED_RAD, {"mocap_quat": _random_turn(noise[:, :2])[:, None]}


def reset_state(noise: Tensor) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 31]` and mocap_quat `[N, 1, 4]`, from noise `[N, 31]` in [-1, 1)."""
    middle, half_range = middle_and_half(JOINT_RANGES_RAD, noise.device)
    start, follows = _start(noise.device)
    joints = 0.2 * torch.addcmul(middle, noise[:, 7:].index_select(1, follows), half_range)
    qpos = torch.cat((joints, start + 0.01 * noise[:, 4:7], _random_turn(noise[:, 2:4])), dim=1)
    return {"qpos": qpos, "mocap_quat": _random_turn(noise[:, :2])[:, None]}


def _random_turn(noise: Tensor) -> Tensor:
    """Quaternions `[N, 4]` of turns about x and then about the new y axis, each by noise `[N, 2]` times half a turn."""
    half = noise * (pi / 2)
    (cos_x, cos_y), (sin_x, sin_y) = half.cos().unbind(1), half.sin().unbind(1)
    return torch.stack((cos_x * cos_y, sin_x * cos_y, cos_x * sin_y, sin_x * sin_y), dim=1)


@cache
def _start(device: torch.device) -> tuple[Tensor, Tensor]:
    """The start of the block `[3]`, and for each joint the index of the joint whose noise it uses `[24]`."""
    names = [joint.name for joint in JOINTS]
    leaders = [names.index(joint.name if joint.torque_nm else f"{joint.name[:2]}J2") for joint in JOINTS]
    return torch.tensor(BLOCK_START_M, device=device), torch.tensor(leaders, device=device)


@cache
def _motor_ranges(device: torch.device) -> tuple[Tensor, Tensor]:
    """Middle and half of the range of each motor's joint `[20]`, rad."""
    driven = torch.tensor([JOINTS.index(motor) for motor in MOTORS], device=device)
    middle, half_range = middle_and_half(JOINT_RANGES_RAD, device)
    return middle[driven], half_range[driven]


@cache
def _scaling(device: torch.device) -> tuple[Tensor, Tensor]:
    """Offset and scale of the observation `[211]`."""
    middle, half_range = middle_and_half(JOINT_RANGES_RAD, device)
    scale = torch.ones(_SPEC.observation.size, device=device)
    scale[:24] = 1 / half_range
    scale[24:48] = scale[82:85] = 0.2
    scale[48:72] = scale[161:191] = 10.0
    offset = torch.zeros_like(scale)
    offset[:24] = -middle / half_range
    return offset, scale


SHADOW_HAND = TaskDefinition(
    spec=_SPEC,
    build_mjcf=shadow_hand_mjcf,
    substeps=2,
    fields=("qpos", "qvel", "sensordata", "mocap_quat"),
    observe=observe,
    reward_done=reward_done,
    reward_terms=reward_terms,
    reset_noise=31,
    reset_state=reset_state,
    control=control,
    new_goal=new_goal,
)
