"""What Ant and Humanoid share: they run towards a far target, rewarded for progress, posture and heading."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gmi_drl.tasks.constants import Ranges, constant, middle_and_half
from gmi_drl.tasks.rotation import into_frame, rotation_matrix
from gmi_drl.tasks.sim_task import Fields
from gmi_drl.tasks.terms import Terms

TARGET_M = (1000.0, 0.0)
ROOT_SIZE = 12
"""Length of the part about the root with which each observation begins; see `_root_observation`."""


def observation(fields: Fields, action: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
    """Observation `[N, O]`: the root, joint angles and velocities, sensors and the last action `[N, A]`.

    Reads qpos `[N, 7 + J]`, qvel `[N, 6 + J]` and sensordata `[N, S]`; offset and scale `[O]` come from `scaling`.
    """
    qpos, qvel = fields["qpos"], fields["qvel"]
    root = _root_observation(qpos, qvel)
    measured = torch.cat((root, qpos[:, 7:], qvel[:, 6:], fields["sensordata"], action), dim=1)
    return torch.addcmul(offset, measured, scale)


def running_reward(obs: Tensor, before: Fields, after: Fields, *, step_s: float, alive: float) -> Tensor:
    """Reward of a step `[N]` before costs: progress in m/s + `alive` + 0.1 when upright + up to 0.5 for the heading.

    `obs` `[N, O]` comes from `observation`, with a scale of 1 for the up and heading projections.
    """
    up, heading = obs[:, 10], obs[:, 11]
    reward = progress(before["qpos"][:, :2], after["qpos"][:, :2]) / step_s + alive
    return reward.add_(up > 0.93, alpha=0.1).add_((heading / 0.8).clamp_(max=1.0), alpha=0.5)


def running_terms(obs: Tensor, before: Fields, after: Fields, *, step_s: float, alive: float) -> Terms:
    """The terms of `running_reward`, by the names of Isaac Lab."""
    up, heading = obs[:, 10], obs[:, 11]
    return {
        "progress": progress(before["qpos"][:, :2], after["qpos"][:, :2]) / step_s,
        "alive": torch.full_like(up, alive),
        "upright": 0.1 * (up > 0.93),
        "move_to_target": 0.5 * (heading / 0.8).clamp(max=1.0),
    }


def progress(start: Tensor, end: Tensor) -> Tensor:
    """By how many metres the target is nearer `[N]` after a move from `start` to `end` `[N, 2]`.

    |a| - |b| = (a - b)(a + b) / (|a| + |b|) keeps all digits of a small move far from the target.
    """
    a, b = _target(start.device).T - start, _target(start.device).T - end
    distances: Tensor = torch.linalg.vector_norm(a, dim=1) + torch.linalg.vector_norm(b, dim=1)
    return ((end - start) * (a + b)).sum(1) / distances


def start_state(noise: Tensor, height_m: float, ranges_rad: Ranges) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, 7 + J]` and qvel `[N, 6 + J]`, from noise `[N, 2 J]`, uniform in [-1, 1).

    The root is upright at `height_m`, at rest. Joints are within 0.2 rad of zero and of their limits, and move at up to
    0.1 rad/s.
    """
    middle, half_range = middle_and_half(ranges_rad, noise.device)
    low, high = middle - half_range, middle + half_range
    joints = len(ranges_rad)
    qpos, qvel = noise.new_zeros(len(noise), 7 + joints), noise.new_zeros(len(noise), 6 + joints)
    qpos[:, 2], qpos[:, 3] = height_m, 1.0
    qpos[:, 7:] = (torch.zeros_like(low).clamp(low, high) + 0.2 * noise[:, :joints]).clamp(low, high)
    qvel[:, 6:] = 0.1 * noise[:, joints:]
    return {"qpos": qpos, "qvel": qvel}


def scaling(
    root: Sequence[float], ranges_rad: Ranges, rest: Sequence[float], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Offset and scale of an observation `[O]`: the root, joint angles (-1 and 1 at their limits), the rest."""
    middle, half_range = middle_and_half(ranges_rad, device)
    before, after = torch.tensor(root, device=device), torch.tensor(rest, device=device)
    offset = torch.cat((torch.zeros_like(before), -middle / half_range, torch.zeros_like(after)))
    return offset, torch.cat((before, 1 / half_range, after))


def _root_observation(qpos: Tensor, qvel: Tensor) -> Tensor:
    """Motion of the torso and direction of the target `[N, 12]`, in metres, radians and seconds.

    Height; velocity and angular velocity in the torso's frame; yaw and roll; the angle from the heading to the target,
    left is positive; the torso's z axis along the world's; its x axis along the target's direction on the ground.
    Angles lie in [-pi, pi].
    """
    # Components of the body are rows here, so that each operation reads contiguous memory.
    root, root_velocity = qpos[:, :7].T.contiguous(), qvel[:, :6].T.contiguous()
    rotation = rotation_matrix(root[3:])
    velocity = into_frame(rotation, root_velocity[:3])
    forward_x, forward_y, up_y, up_z = rotation[0, 0], rotation[1, 0], rotation[2, 1], rotation[2, 2]
    to_target = _target(qpos.device) - root[:2]
    target_x, target_y = to_target / torch.linalg.vector_norm(to_target, dim=0)
    ahead = forward_x * target_x + forward_y * target_y
    left = forward_x * target_y - forward_y * target_x
    yaw_roll_target = torch.atan2(torch.stack((forward_y, up_y, left)), torch.stack((forward_x, up_z, ahead)))
    return torch.cat((root[2:3], velocity, root_velocity[3:], yaw_roll_target, up_z[None], ahead[None])).T


def _target(device: torch.device) -> Tensor:
    """Place of the target `[2, 1]`, m."""
    return constant(TARGET_M, device)[:, None]
