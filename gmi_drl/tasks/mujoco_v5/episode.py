"""What gymnasium's tasks share: first states, velocities, robots that run in a plane."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from gmi_drl.tasks.constants import constant
from gmi_drl.tasks.mujoco_v5.model import gymnasium_mjcf
from gmi_drl.tasks.sim_task import Fields, TaskDefinition
from gmi_drl.tasks.terms import Terms
from gmi_drl.workload import TaskSpec

CONTROL_COST = 1e-3
"""Of Hopper and Walker2d, per squared action."""
RESET_NOISE = 5e-3
"""Of Hopper and Walker2d."""

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


def observe_plane(fields: Fields, most_speed: float = float("inf")) -> Tensor:
    """Observation `[N, nq - 1 + nv]` of a robot that runs in a plane: qpos without x, then qvel, clipped."""
    return torch.cat((fields["qpos"][:, 1:], fields["qvel"].clamp(-most_speed, most_speed)), dim=1).float()


def is_within(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Whether a value lies strictly between two limits, bool of its shape."""
    return (value > limits[0]) & (value < limits[1])


def healthy_runner(
    spec: TaskSpec, mjcf: str, rest: tuple[float, ...], is_healthy: Callable[[Fields], Tensor]
) -> TaskDefinition:
    """The task of Hopper and Walker2d: run in a plane and stay healthy.

    Reward = velocity along x + 1 while healthy - 0.001 times the squared actions. An episode ends when the robot is not
    healthy. 4 substeps.

    Args:
        spec: Of the task.
        mjcf: Name of gymnasium's model file.
        rest: The initial positions `[nq]`.
        is_healthy: Whether the robot of each environment is healthy, bool `[N]`.
    """

    def reward_done(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> tuple[Tensor, Tensor]:
        healthy = is_healthy(after)
        reward = x_velocity(before, after, spec.step_s) + healthy - CONTROL_COST * action.square().sum(1)
        return reward.float(), ~healthy

    def reward_terms(obs: Tensor, action: Tensor, before: Fields, after: Fields) -> Terms:
        return {
            "reward_forward": x_velocity(before, after, spec.step_s).float(),
            "reward_survive": is_healthy(after).float(),
            "reward_ctrl": -CONTROL_COST * action.square().sum(1),
        }

    return TaskDefinition(
        spec=spec,
        build_mjcf=partial(gymnasium_mjcf, mjcf),
        substeps=4,
        fields=("qpos", "qvel"),
        observe=lambda fields, action: observe_plane(fields, MOST_SPEED),
        reward_done=reward_done,
        reward_terms=reward_terms,
        reset_noise=2 * len(rest),
        reset_state=lambda noise: start_state(noise, rest, RESET_NOISE),
        remembered=("qpos",),
        as_stepped=True,
    )
