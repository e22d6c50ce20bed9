"""Tasks of IsaacGymEnvs (Isaac Gym preview), which run in a process of their own: `isaacgym:Ant`.

Isaac Gym is closed source and needs Python 3.8 or older. So it runs in the interpreter that GMI_DRL_SIMULATOR_PYTHON
names (`--simulator-python`), as a child process of the GMI, on its cores and GPU. The two share host memory, through
which all tensors pass: the simulator's process copies observations from the GPU, and this one copies them back to it,
because neither can access the other's GPU memory.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from gmi_drl.config.task_names import SIMULATOR_PYTHON
from gmi_drl.errors import MachineError
from gmi_drl.tasks.adapters import isaacgym_bridge as bridge
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.isaacgym_process import START_S, STEP_S, BridgeProcess
from gmi_drl.tasks.adapters.specs import HIDDEN, in_words
from gmi_drl.workload import TASK_SPECS, TaskSpec
from gmi_drl.workload.spaces import continuous, vector

PREFIX = "isaacgym"


def make_task(rest: str, *, num_env: int, device: str = "cpu", seed: int = 0, threads: int = 1) -> "IsaacGymTask":
    """Make a task of IsaacGymEnvs.

    Args:
        rest: Its name in IsaacGymEnvs, such as "Ant".
        num_env: Number of environments N.
        device: The device of the physics and the tensors ("cpu", "cuda:0").
        seed: Seed of Python's, NumPy's and torch's generators in the simulator's process.
        threads: Threads of torch in that process; PhysX takes its number from the task's configuration.

    Raises:
        MachineError: There is no interpreter with Isaac Gym.
        GmiError: IsaacGymEnvs could not make the task.
    """
    order = {"task": rest, "num_env": num_env, "device": device, "seed": seed, "threads": threads}
    return IsaacGymTask(BridgeProcess(simulator_python(), order), rest, device)


def simulator_python() -> Path:
    """The path of the interpreter that has Isaac Gym.

    Raises:
        MachineError: None is named, or it cannot be run.
    """
    named = os.environ.get(SIMULATOR_PYTHON, "")
    if not named:
        remedy = f"name one with --simulator-python PATH or {SIMULATOR_PYTHON}"
        raise MachineError(f"Isaac Gym needs an interpreter of its own (Python 3.8 or older): {remedy}")
    found = shutil.which(named)
    if found is None:
        raise MachineError(f"{SIMULATOR_PYTHON} is {named}, which is not an executable: give the interpreter's path")
    return Path(found).absolute()  # the link is not resolved, because it identifies a virtual environment


class IsaacGymTask(AdaptedTask):
    """See `AdaptedTask`. The step after the end of an episode resets the environment, and is no transition.

    Where an episode ends, `step` of IsaacGymEnvs returns its last observation. That is `final_obs` and, because nothing
    newer is known, `obs`. The next step resets the environment. Some tasks (Ant, Humanoid, Anymal, FrankaCabinet) reset
    after the physics, so the action is lost. Others (BallBalance, ShadowHand) reset before it, so an action that was
    chosen for the old episode moves the new one, and one step of the time limit is used. In both cases the policy has
    not seen the state that it acted on. So that step has reward 0, is not valid and is truncated, and the episode
    begins with the observation that the step returns.

    A learner that writes to `episode_length` does not change the simulator's own count.
    """

    def __init__(self, process: BridgeProcess, name: str, device: str) -> None:
        self._process, self._device = process, torch.device(device)
        self._host = {name: torch.from_numpy(array) for name, array in process.arrays.items()}
        spec = spec_of(name, process.hello)
        super().__init__(spec, self._begin(), _box(process.hello["low"], process.hello["high"]))

    def close(self) -> None:
        """End the simulator's process."""
        self._host = {}
        self._process.close()

    def _begin(self) -> Tensor:
        result = self._request(bridge.RESET, START_S)
        self._has_ended = result["done"] | result["bad"]
        return result["obs"]

    def _simulate(self, action: Tensor) -> Outcome:
        self._host["action"].copy_(action)
        result = self._request(bridge.STEP, STEP_S)
        obs, done, timed_out = result["obs"], result["done"], result["timed_out"]
        began, self._has_ended = self._has_ended, done | result["bad"]
        return Outcome(obs, result["reward"], done & ~timed_out, done & timed_out, final_obs=obs, began=began)

    def _request(self, message: bytes, deadline_s: float) -> dict[str, Tensor]:
        """Have the bridge step or reset. Returns its tensors on the device; on the CPU, views of the shared memory."""
        self._process.request(message, deadline_s)
        return {name: array.to(self._device) for name, array in self._host.items() if name != "action"}


def spec_of(name: str, hello: Mapping[str, Any]) -> TaskSpec:
    """The task's sizes as the bridge sent them. The rest is taken from our own task of that name, if there is one."""
    sizes: dict[str, Any] = {
        "name": f"{PREFIX}:{name}",
        "alias": f"{PREFIX}:{name}",
        "observation": vector(hello["sizes"]["num_obs"]),
        "action": continuous(hello["sizes"]["num_actions"]),
        "episode_steps": hello["episode_steps"],
        "step_s": hello["step_s"],
        "action_bounds": in_words(_box(*_clipped(hello))),
    }
    own = next((spec for spec in TASK_SPECS.values() if _plain(spec.name) == _plain(name)), None)
    return replace(own, **sizes) if own else TaskSpec(hidden=HIDDEN, **sizes)


def _clipped(hello: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """The bounds of actions, cut to the task's own clipping at +-`clip`, which may be infinite."""
    low, high = ([min(max(bound, -hello["clip"]), hello["clip"]) for bound in hello[side]] for side in ("low", "high"))
    return low, high


def _box(low: list[float], high: list[float]) -> SimpleNamespace:
    return SimpleNamespace(low=low, high=high, shape=(len(low),))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
