"""envpool's environments as tasks: `envpool:HalfCheetah-v5`. They step in as many threads as the GMI has cores.

The step after the end of an episode begins the next one, and its action is not used. So one transition in a thousand
is left out if episodes have 1000 steps.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gmi_drl.config.task_section import ATARI_SETTINGS, USUAL_SETTINGS, TaskSettings, refused_settings
from gmi_drl.errors import UsageError, did_you_mean, not_importable
from gmi_drl.tasks.adapters.games import FRAMES_PER_S, GameTask, rules_of
from gmi_drl.tasks.adapters.gymnasium import NO_ARGUMENTS, GymnasiumTask, reward_scale_of, spec_of_spaces

INSTALL = "pip install 'gmi-drl[envpool]'"
MOST_SEEDS = 2**31

OUR_NAMES = {
    "noop_max": "noops",
    "frame_skip": "frame_skip",
    "stack_num": "stack",
    "img_height": "image_size",
    "img_width": "image_size",
    "repeat_action_probability": "sticky_actions",
    "episodic_life": "lives_end",
    "reward_clip": "clip_rewards",
}
"""envpool's arguments of Atari's games that are settings of the section `task`."""


def make_task(
    rest: str,
    *,
    num_env: int,
    device: str,
    seed: int,
    threads: int,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
    settings: TaskSettings = USUAL_SETTINGS,
    films: bool = False,
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
    if "noop_max" in envpool.make_spec(rest)._config_keys:
        return _make_game(rest, sizes, device, arguments, settings)
    name = f"envpool:{rest}"
    if refused := refused_settings(name, settings, frozenset({"channels"})):
        raise UsageError(refused)
    if films:
        raise UsageError(f"{name} cannot be drawn, only envpool's Atari games can: leave out -o")
    envs = envpool.make_gymnasium(rest, **sizes, **arguments)
    limit = envs.spec.config.max_episode_steps
    spec = spec_of_spaces(name, envs, limit, reward_scale=reward_scale_of(rest), channels=settings.channels)
    spec = replace(spec, frame_skip=getattr(envs.spec.config, "frame_skip", 1))
    return GymnasiumTask(envs, spec, device=device, seed=None, channels=settings.channels)


class EnvpoolGameTask(GameTask):
    """Atari's games of envpool, which draw themselves."""

    def draw(self) -> npt.NDArray[np.uint8]:
        """The games' own pictures now, `[N, height, width, 3]`."""
        envs: Any = self.envs
        picture: npt.NDArray[np.uint8] = envs.render(env_ids=np.arange(self.num_env))
        return picture


def _make_game(
    rest: str, sizes: Mapping[str, Any], device: str, arguments: Mapping[str, Any], settings: TaskSettings
) -> EnvpoolGameTask:
    """Make a game of Atari.

    Raises:
        UsageError: An argument is a setting of the section `task`, or the game does not take a setting.
    """
    import envpool

    name, rules = f"envpool:{rest}", rules_of(settings)
    if refused := refused_settings(name, settings, ATARI_SETTINGS):
        raise UsageError(refused)
    if ours := [f"--env-arg {key}: --set task.{OUR_NAMES[key]}" for key in arguments if key in OUR_NAMES]:
        raise UsageError(f"{name}: in place of {', in place of '.join(ours)} is the setting")
    if not rules.noops:  # envpool 1.2.5 ends the process
        raise UsageError(
            f"{name} cannot be played without steps at the start: task.noops is at least 1, or take atari:"
        )
    played = {
        "noop_max": rules.noops,
        "frame_skip": rules.frame_skip,
        "stack_num": rules.stack,
        "img_height": rules.image_size,
        "img_width": rules.image_size,
        "repeat_action_probability": rules.sticky_actions,
        "max_episode_steps": rules.most_steps,
        "render_mode": "rgb_array",
    }
    envs = envpool.make_gymnasium(rest, **sizes, **{**played, **arguments})
    spec = spec_of_spaces(name, envs, envs.spec.config.max_episode_steps, rules.frame_skip / FRAMES_PER_S)
    return EnvpoolGameTask(envs, replace(spec, frame_skip=rules.frame_skip), rules, device=device, seed=None)
