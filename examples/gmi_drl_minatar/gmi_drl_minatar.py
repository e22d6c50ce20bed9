"""MinAtar's games as tasks of gmi-drl: `minatar:Breakout`."""

from dataclasses import replace
from typing import Any

import minatar.gym

from gmi_drl.tasks.adapters import gymnasium
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask

minatar.gym.register_envs()  # the import of MinAtar alone registers nothing


def make_task(rest: str, **more: Any) -> GymnasiumTask:
    """Make `minatar:REST`, with the actions that the game uses; `more` is as of other makers of tasks."""
    task = gymnasium.make_task(f"MinAtar/{rest}-v1", **more)
    task.spec = replace(task.spec, name=f"minatar:{rest}", alias=f"minatar:{rest}")
    return task
