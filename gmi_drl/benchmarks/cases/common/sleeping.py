"""Environments that sleep as long as those of SRL's Table 1 take, and are as wide. Peers' drivers load this file, too.

A frame of a core takes SRL the cores over the frames/s of its row with equal cores: football 700 / 18,988, SMAC 200 /
4,943 seconds. Simple115 of Google Research Football has 115 numbers and 19 actions; SMAC's 27m_vs_30m 285 numbers of
each of 27 agents, here of one, and 36 actions.
"""

import time
from typing import Any

import gymnasium
import numpy as np

FRAME_S = {"FootballLike-v0": 700 / 18_988, "SmacLike-v0": 200 / 4_943}
WIDTHS = {"FootballLike-v0": 115, "SmacLike-v0": 285 * 27}
ACTIONS = {"FootballLike-v0": 19, "SmacLike-v0": 36}
EPISODE = 200


class Sleeping(gymnasium.Env[Any, Any]):
    """Each step sleeps, and gives the same numbers."""

    def __init__(self, name: str, frame_s: float | None = None) -> None:
        self._frame_s = FRAME_S[name] if frame_s is None else frame_s
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (WIDTHS[name],), np.float32)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS[name])
        self._seen = np.zeros(WIDTHS[name], np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._steps = 0
        return self._seen.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sleep for a frame."""
        time.sleep(self._frame_s)
        self._steps += 1
        return self._seen.copy(), 1.0, self._steps >= EPISODE, False, {}


for _name in FRAME_S:
    if _name not in gymnasium.registry:
        gymnasium.register(id=_name, entry_point=f"{__name__}:Sleeping", kwargs={"name": _name})
