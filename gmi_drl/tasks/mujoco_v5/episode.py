"""What gymnasium's tasks share: first states, velocities, observations of robots in a plane."""

import torch
from torch import Tensor

from gmi_drl.tasks.constants import constant
from gmi_drl.tasks.sim_task import Fields
from gmi_drl.tasks.terms import Terms

MOST_SPEED = 10.0
"""Largest velocity that Hopper and Walker2d observe, m/s or rad/s."""


def start_state(noise: Tensor, rest: tuple[float, ...], spread: float, *, is_normal: bool = False) -> dict[str, Tensor]:
    """First states of N episodes, qpos `[N, nq]` and qvel `[N, nv]`.

    Args:
        noise: `[N, nq + nv]`, uniform in [-1, 1).
        rest: The model's initial positions `[nq]`; MuJoCo normalises a quaternion.
        spread: Bound of the uniform noise that is added to positions and velocities.
        is_normal: Whether the velocities' noise is normal instead, with `spread` as deviation.
    """
    qpos = constant(rest, noise.device) + spread * noise[:, : len(rest)]
    qvel = noise[:, len(rest) :]
    if is_normal:
        qvel = 2**0.5 * torch.erfinv(qvel.clamp(min=-1 + 1e-7))  # -1 would be infinite
    return {"qpos": qpos, "qvel": spread * qvel}


def x_velocity(before: Fields, after: Fields, step_s: float) -> Tensor:
    """Mean velocity along the first coordinate in a step `[N]`, m/s, float64."""
    return (after["qpos"][:, 0] - before["qpos"][:, 0]) / step_s


def running_terms(
    before: Fields, after: Fields, action: Tensor, is_healthy: Tensor, step_s: float, control_cost: float
) -> Terms:
    """The terms of Hopper's and Walker2d's rewards, as in gymnasium's `info`."""
    return {
        "reward_forward": x_velocity(before, after, step_s).float(),
        "reward_survive": is_healthy.float(),
        "reward_ctrl": -control_cost * action.square().sum(1),
    }


def observe_plane(fields: Fields, most_speed: float = float("inf")) -> Tensor:
    """Observation `[N, nq - 1 + nv]` of a robot that runs in a plane: qpos without x, then qvel, clipped."""
    return torch.cat((fields["qpos"][:, 1:], fields["qvel"].clamp(-most_speed, most_speed)), dim=1).float()


def is_within(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Whether a value lies strictly between two limits, bool of its shape."""
    return (value > limits[0]) & (value < limits[1])
