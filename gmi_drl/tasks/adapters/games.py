"""Atari's games, whichever library runs them: what training sees of lives and rewards."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from gmi_drl.config.task_section import TaskSettings
from gmi_drl.tasks.adapters.base import Outcome
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask
from gmi_drl.workload import TaskSpec

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

FRAMES_PER_S = 60
MOST_FRAMES = 108_000
"""Frames after which a game is cut off: half an hour, as usual since Machado et al. (arXiv 1709.06009)."""


@dataclass(frozen=True)
class GameRules:
    """How a game is played, with the usual values of Mnih et al. (Nature 2015); see `TaskSettings`."""

    noops: int = 30
    frame_skip: int = 4
    stack: int = 4
    image_size: int = 84
    lives_end: bool = True
    clip_rewards: bool = True
    sticky_actions: float = 0.0

    @property
    def most_steps(self) -> int:
        """Steps after which a game is cut off."""
        return max(1, MOST_FRAMES // self.frame_skip)


def rules_of(settings: TaskSettings) -> GameRules:
    """The rules with what is set."""
    given = settings.given()
    return GameRules(**{name: value for name, value in given.items() if name in GameRules.__dataclass_fields__})


class GameTask(GymnasiumTask):
    """Games as a `Task`: training sees the sign of rewards and lives as ends, as the rules say.

    A life that is lost ends an episode, and the game goes on: the next episode begins with the same observation. The
    game's own rewards and ends are `own_reward` and `own_end` of each step's info.

    Args:
        envs: N games, which tell their lives in each step's infos. They are reset.
        spec: The task's sizes.
        rules: How training sees them.
        more: See `GymnasiumTask`.
    """

    def __init__(self, envs: "VectorEnv[Any, Any, Any]", spec: TaskSpec, rules: GameRules, **more: Any) -> None:
        self._rules, self._lives = rules, np.zeros(envs.num_envs, np.int64)
        super().__init__(envs, spec, **more)

    def _begin(self) -> Tensor:
        self._lives = np.zeros_like(self._lives)
        return super()._begin()

    def _learnt(self, outcome: Outcome, infos: Any) -> Outcome:
        outcome.own_reward, outcome.own_end = outcome.reward, outcome.terminated | outcome.truncated
        if self._rules.clip_rewards:
            outcome.reward = outcome.reward.sign()
        lives = np.array(infos["lives"], np.int64)  # a copy: it may be the library's own memory
        if self._rules.lives_end:
            outcome.terminated = outcome.terminated | self._tensor(lives < self._lives, outcome.terminated.dtype)
        self._lives = lives
        return outcome
