"""envpool's environments as tasks: `envpool:HalfCheetah-v5`. They step in threads, as many as the GMI has cores.

A world that ended begins anew in the step after, whose action is not used: with episodes of 1000 steps one transition
in a thousand is left out.
"""

from collections.abc import Mapping
from typing import Any

from gmi_drl.errors import UsageError, did_you_mean, not_importable
from gmi_drl.tasks.adapters.base import spec_of
from gmi_drl.tasks.adapters.gymnasium import NO_ARGUMENTS, GymnasiumTask, reward_scale_of

INSTALL = "pip install 'gmi-drl[envpool]'"
MOST_SEEDS = 2**31


def make_task(
    rest: str,
    *,
    num_env: int,
    device: str,
    seed: int,
    threads: int,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
) -> GymnasiumTask:
    """The task `envpool:REST`; `REST` is an id of `envpool.list_all_envs()`, `arguments` are of `make_gymnasium`.

    Raises:
        UsageError: there is no such environment, or it has other spaces than boxes.
        MachineError: envpool is not installed.
    """
    try:
        import envpool
    except ImportError as error:
        raise not_importable("envpool", "envpool", error, INSTALL) from error

    known = envpool.list_all_envs()
    if rest not in known:
        raise UsageError(f"envpool has no {rest!r}{did_you_mean(rest, known)}")
    sizes = {"num_envs": num_env, "num_threads": threads, "seed": seed % MOST_SEEDS}
    envs = envpool.make_gymnasium(rest, **sizes, **arguments)
    spec = spec_of(
        f"envpool:{rest}",
        envs.single_observation_space,
        envs.single_action_space,
        episode_steps=envs.spec.config.max_episode_steps,
        step_s=0.0,
        reward_scale=reward_scale_of(rest),
    )
    return GymnasiumTask(envs, spec, device=device, seed=None)
