"""The ring of a GMI: of its task's steps, as the configuration says."""

import math

import torch

from gmi_drl.config.learners import OffPolicyConfig
from gmi_drl.replay import Field, MinSize, Prioritized, Ring, Signature, Uniform
from gmi_drl.roles.replay.rollouts import VERSION
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.observations import dtype_of


def make_ring(
    spec: TaskSpec,
    config: OffPolicyConfig,
    num_env: int,
    group_num_env: int,
    device: torch.device,
    seed: int,
    *,
    of_rollouts: bool = False,
) -> Ring:
    """Make the ring of a GMI.

    Args:
        spec: Of the task.
        config: Of the learner.
        num_env: Environments of this GMI.
        group_num_env: Those of all GMIs that train together.
        device: That learns.
        seed: Of what is drawn.
        of_rollouts: Whether they are those of other GMIs, whose rollouts `add_rollouts` adds: then a step has the field
            `VERSION`, and the rows that follow rollouts count neither in the ring's size nor in the least one.

    Raises:
        UsageError: The placement is not one of this device.
        MachineError: There is not as much memory.
    """
    replay, seen = config.replay, spec.observation
    placement = replay.placement or ("cpu" if device.type == "cpu" else "device")
    fields = (
        Field("obs", seen.shape, dtype_of(seen)),
        Field("action", (spec.action.size,)),
        Field("reward"),
        Field("terminated", (), torch.bool),
        *((VERSION,) if of_rollouts else ()),
    )
    steps, least = config.ring_steps(num_env), math.ceil(replay.min_size * num_env / group_num_env)
    if of_rollouts:
        steps, least = config.rows_of_rollouts(steps), config.rows_of_rollouts(least)
    return Ring(
        Signature(fields),
        num_env,
        steps,
        n_step=replay.n_step,
        gamma=config.gamma,
        sampler=Prioritized(replay.exponent) if replay.sampler == "prioritized" else Uniform(),
        limiter=MinSize(least),
        placement=placement,
        device=device,
        next_obs=replay.next_obs,
        stacks={"obs": replay.stacks} if replay.stacks else None,
        seed=seed,
    )
