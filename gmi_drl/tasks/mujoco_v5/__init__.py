"""gymnasium's five classic MuJoCo tasks on batched physics: its own models, observations, rewards and ends.

`mujoco:Ant-v5` steps a batch of environments as gymnasium's `Ant-v5` (default arguments) steps one. From the same state
and with the same action, observation, reward and end agree within 1e-6, and the next state to the last bit
(`tests/tasks/mujoco_v5`). What differs:

* Actions are clamped to [-1, 1] and scaled to the motors' range, as in every task. gymnasium passes larger actions on:
  MuJoCo clamps them, too, but the reward's cost is that of the larger action.
* An environment whose numbers become NaN or huge is truncated and left out of training. gymnasium goes on: MuJoCo has
  set the robot to the model's initial state.
* The limit of 1000 steps, which is gymnasium's `TimeLimit`, is part of the task. First states have the same
  distribution, but other random draws: the same seed gives other states.
* Observations and rewards are float32.
"""

from gmi_drl.tasks.mujoco_v5.ant import ANT
from gmi_drl.tasks.mujoco_v5.half_cheetah import HALF_CHEETAH
from gmi_drl.tasks.mujoco_v5.hopper import HOPPER
from gmi_drl.tasks.mujoco_v5.humanoid import HUMANOID
from gmi_drl.tasks.mujoco_v5.walker2d import WALKER2D

__all__ = ["MUJOCO_TASKS"]

MUJOCO_TASKS = (ANT, HALF_CHEETAH, HOPPER, HUMANOID, WALKER2D)
