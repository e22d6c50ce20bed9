"""gymnasium's five classic MuJoCo tasks on batched physics: its own models, observations, rewards and ends.

`mujoco:Ant-v5` does for a batch of worlds what gymnasium's `Ant-v5` does for one, with default arguments: from the same
state and with the same action, observation, reward and end agree within 1e-6, and the next state to the last bit
(`tests/tasks/mujoco_v5`). What differs:

* Actions lie in [-1, 1], are clamped to that, and scaled to the motors' range, as with every task. gymnasium passes on
  what lies beyond: MuJoCo clamps it, too, but its cost is that of the action as it was given.
* A world whose numbers become NaN or huge is truncated and left out of training. gymnasium goes on: MuJoCo has put the
  robot back to where its model begins.
* Episodes of 1000 steps, which gymnasium's `TimeLimit` ends, are part of the task. Their first states are spread alike,
  but drawn otherwise: the same seed gives others.
* Observations and rewards are float32.
"""

from gmi_drl.tasks.mujoco_v5.ant import ANT
from gmi_drl.tasks.mujoco_v5.half_cheetah import HALF_CHEETAH
from gmi_drl.tasks.mujoco_v5.hopper import HOPPER
from gmi_drl.tasks.mujoco_v5.humanoid import HUMANOID
from gmi_drl.tasks.mujoco_v5.walker2d import WALKER2D

__all__ = ["MUJOCO_TASKS"]

MUJOCO_TASKS = (ANT, HALF_CHEETAH, HOPPER, HUMANOID, WALKER2D)
