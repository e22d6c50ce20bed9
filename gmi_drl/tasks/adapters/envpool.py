"""envpool's environments as tasks: `envpool:HalfCheetah-v5`. They step in as many threads as the GMI has cores.

The step after the end of an episode begins the next one, and its action is not used. So one transition in a thousand
is left out if episodes have 1000 steps.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gmi_drl.errors import UsageError, did_you_mean, not_importable
from gmi_drl.tasks.adapters.gymnasium import NO_ARGUMENTS, GymnasiumTask, reward_scale_of, spec_of_spaces

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
    """Make the task `envpool:REST`. `rest` is in `envpool.list_all_envs()`; `arguments` go to `make_gymnasium`.

    Raises:
        UsageError: there is no such environment, or a space is not supported.
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
    limit = envs.spec.config.max_episode_steps
    spec = spec_of_spaces(f"envpool:{rest}", envs, limit, reward_scale=reward_scale_of(rest))
    spec = replace(spec, frame_skip=getattr(envs.spec.config, "frame_skip", 1))
    return GymnasiumTask(envs, spec, device=device, seed=None)
