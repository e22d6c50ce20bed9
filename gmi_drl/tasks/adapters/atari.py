"""Atari's games by ale-py as tasks: `atari:Pong`. They step in as many threads as the GMI has cores.

An observation has the newest grey pictures, each the maximum of the last two frames of a step.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gmi_drl.config.task_section import USUAL_SETTINGS, TaskSettings
from gmi_drl.errors import UsageError, did_you_mean, not_importable
from gmi_drl.tasks.adapters.base import Outcome
from gmi_drl.tasks.adapters.games import FRAMES_PER_S, GameRules, GameTask, rules_of
from gmi_drl.tasks.adapters.spaces import ActionSpace, ObservationSpace
from gmi_drl.tasks.adapters.specs import sized
from gmi_drl.workload import TaskSpec

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

INSTALL = "pip install 'gmi-drl[atari]'"
HEIGHT, WIDTH = 210, 160
"""Pixels of Atari's own picture."""

MOST_SEEDS = 2**31


class AtariTask(GameTask):
    """Games of ale-py as a `Task`.

    Args:
        film: The same games in colours, for `draw`: ale-py's vectors show one kind of picture, so these play along.
        seed: Of the first reset.
        more: See `GameTask`.
    """

    def __init__(self, *arguments: Any, film: "VectorEnv[Any, Any, Any] | None", seed: int, **more: Any) -> None:
        self._film, self._picture = film, None if film is None else film.reset(seed=seed)[0]
        super().__init__(*arguments, seed=seed, **more)

    def draw(self) -> npt.NDArray[np.uint8]:
        """The games' own pictures now, `[N, height, width, 3]`."""
        picture: npt.NDArray[np.uint8] = np.asarray(self._picture)[:, -1]
        return picture

    def close(self) -> None:
        """See `Task.close`."""
        super().close()
        if self._film is not None:
            self._film.close()

    def _begin(self) -> Tensor:
        if self._film is not None:
            self._picture = self._film.reset()[0]
        return super()._begin()

    def _step(self, action: Tensor) -> Outcome:
        if self._film is not None:
            self._picture = self._film.step(self._action_space.nested(action))[0]
        return super()._step(action)


def make_task(
    rest: str,
    *,
    num_env: int,
    device: str,
    seed: int,
    threads: int,
    settings: TaskSettings = USUAL_SETTINGS,
    films: bool = False,
) -> AtariTask:
    """Make the task `atari:REST`; `rest` is the name of a game: Pong, MsPacman or ms_pacman.

    Raises:
        UsageError: There is no such game.
        MachineError: ale-py is not installed.
    """
    try:
        from ale_py import roms
        from ale_py.vector_env import AtariVectorEnv
    except ImportError as error:
        raise not_importable("ale-py", "ale_py", error, INSTALL) from error

    games = {_plain(game): game for game in roms.get_all_rom_ids()}
    game = games.get(_plain(rest))
    if game is None:
        names = ["".join(map(str.capitalize, one.split("_"))) for one in games.values()]
        raise UsageError(f"ale-py has no game {rest!r}{did_you_mean(rest, names)}")
    rules, first_seed = rules_of(settings), seed % (MOST_SEEDS - num_env)

    def make(**picture: Any) -> "VectorEnv[Any, Any, Any]":
        envs: VectorEnv[Any, Any, Any] = AtariVectorEnv(
            game,
            num_env,
            num_threads=threads,
            autoreset_mode="SameStep",
            max_num_frames_per_episode=rules.most_steps * rules.frame_skip,
            noop_max=rules.noops,
            frameskip=rules.frame_skip,
            repeat_action_probability=rules.sticky_actions,
            reward_clipping=False,
            **picture,
        )
        return envs

    envs = make(stack_num=rules.stack, img_height=rules.image_size, img_width=rules.image_size)
    film = make(stack_num=1, img_height=HEIGHT, img_width=WIDTH, grayscale=False) if films else None
    return AtariTask(envs, _spec(f"atari:{rest}", envs, rules), rules, device=device, seed=first_seed, film=film)


def _spec(name: str, envs: "VectorEnv[Any, Any, Any]", rules: GameRules) -> TaskSpec:
    seen, acts = ObservationSpace(name, envs.single_observation_space), ActionSpace(name, envs.single_action_space)
    step_s = rules.frame_skip / FRAMES_PER_S
    return sized(name, seen.observation, acts.action, "", rules.most_steps, step_s, frame_skip=rules.frame_skip)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
