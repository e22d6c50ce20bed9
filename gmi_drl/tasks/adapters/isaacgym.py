"""Tasks of IsaacGymEnvs (Isaac Gym preview), which run in a process of their own: `isaacgym:Ant`.

Isaac Gym is closed and needs Python 3.8 or older, so it runs in the interpreter that GMI_DRL_SIMULATOR_PYTHON names
(`--simulator-python`), as a child of the GMI and on its cores and GPU, and meets it in shared memory. All tensors pass
through the host: with a GPU, observations are copied from it by the simulator's process and to it by this one, since
neither can see the other's memory.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks.adapters import isaacgym_bridge as bridge
from gmi_drl.tasks.adapters.isaacgym_process import START_S, STEP_S, BridgeProcess
from gmi_drl.tasks.task import Task
from gmi_drl.workload import TASK_SPECS, TaskSpec

PREFIX = "isaacgym"
PYTHON_VARIABLE = "GMI_DRL_SIMULATOR_PYTHON"
"""The path of the interpreter that has Isaac Gym."""

HIDDEN = (256, 128, 64)


def make_task(rest: str, *, num_env: int, device: str = "cpu", seed: int = 0, threads: int = 1) -> Task:
    """Make a task of IsaacGymEnvs.

    Args:
        rest: Its name there, such as "Ant".
        num_env: Number of worlds N.
        device: Where the physics runs and the tensors live ("cpu", "cuda:0").
        seed: Of Python's, numpy's and torch's generators over there.
        threads: Of torch over there; PhysX takes its number from the task's configuration.

    Raises:
        MachineError: There is no interpreter with Isaac Gym.
        GmiError: IsaacGymEnvs could not make the task.
    """
    if num_env < 1 or threads < 1:
        raise UsageError(f"num_env and threads must be at least 1, but are {num_env} and {threads}.")
    order = {"task": rest, "num_env": num_env, "device": device, "seed": seed, "threads": threads}
    return IsaacGymTask(BridgeProcess(simulator_python(), order), rest, device)


def simulator_python() -> Path:
    """The interpreter that has Isaac Gym.

    Raises:
        MachineError: None is named, or it cannot be run.
    """
    named = os.environ.get(PYTHON_VARIABLE, "")
    if not named:
        remedy = f"name one with --simulator-python PATH or {PYTHON_VARIABLE}"
        raise MachineError(f"Isaac Gym needs an interpreter of its own (Python 3.8 or older): {remedy}")
    found = shutil.which(named)
    if found is None:
        raise MachineError(f"{PYTHON_VARIABLE} names {named}, which is no program that can be run: give its path")
    return Path(found).absolute()  # not resolved: a virtual environment is known by the link


class IsaacGymTask:
    """See `Task`. A world that ended spends one step on its reset, which is no transition (`valid` is False).

    IsaacGymEnvs resets lazily. Where an episode ends, `step` returns its last observation, which is `final_obs` and,
    because nothing newer is known, `obs`. The next step resets the world: after the physics in some tasks (Ant,
    Humanoid, Anymal, FrankaCabinet), whose action is then lost, before it in others (BallBalance, ShadowHand), where an
    action that was chosen for the old episode moves the new one. In neither has the policy seen the state that it acted
    on, so for both that step has reward 0, is not valid and ends as truncated, and the episode begins with the
    observation that it returns. In the second kind a step of the time limit is over by then.

    A learner that writes `episode_length` does not move the simulator's own count.
    """

    def __init__(self, process: BridgeProcess, name: str, device: str) -> None:
        self._process = process
        self._host = process.arrays
        self.spec = spec_of(name, process.hello)
        self.num_env = int(process.hello["sizes"]["num_env"])
        self.device = torch.device(device)
        self.episode_length = torch.zeros(self.num_env, dtype=torch.int64, device=self.device)
        self.obs = torch.zeros(self.num_env, self.spec.num_obs, device=self.device)
        self._ended = np.zeros(self.num_env, dtype=np.bool_)
        self.reset()

    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._process.ask(bridge.RESET, START_S)
        bad = self._host["bad"]
        self.obs = self._upload(np.where(bad[:, None], np.float32(0), self._host["obs"]))
        self._ended = self._host["done"] | bad
        self.episode_length.zero_()
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`. Whatever is known on the host is worked out there, and uploaded in three pieces."""
        torch.from_numpy(self._host["action"]).copy_(self._checked(action).clamp(-1, 1))
        self._process.ask(bridge.STEP, STEP_S)
        done, timed_out, bad = self._host["done"], self._host["timed_out"], self._host["bad"]

        invalid, timed_out = bad | self._ended, done & timed_out
        flags = np.stack((done & ~(timed_out | invalid), timed_out | invalid, bad, ~invalid))
        terminated, truncated, is_bad, valid = self._upload(flags)
        reward = self._upload(np.where(invalid, np.float32(0), self._host["reward"]))
        obs = self._upload(self._host["obs"].copy())
        self.obs = torch.where(is_bad[:, None], self.obs, obs) if bad.any() else obs

        self.episode_length.add_(1).masked_fill_(terminated | truncated, 0)
        self._ended = done | bad
        return self.obs, reward, terminated, truncated, {"final_obs": self.obs, "bad": is_bad, "valid": valid}

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: Isaac Gym cannot give the state of its solver."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Begin new episodes. Raises UsageError for a state that is not empty, which is not of this task."""
        if state:
            raise UsageError(f"{self.spec.name} cannot go on from a saved state, but got {sorted(state)}.")
        self.reset()

    def close(self) -> None:
        """End the simulator's process."""
        self._host = {}
        self._process.close()

    def _checked(self, action: Tensor) -> Tensor:
        expected = (self.num_env, self.spec.num_actions)
        if tuple(action.shape) != expected:
            raise UsageError(f"The action has shape {tuple(action.shape)}, but {self.spec.name} takes {expected}.")
        return action

    def _upload(self, array: npt.NDArray[Any]) -> Tensor:
        """An array of this step, on the device."""
        return torch.from_numpy(array).to(self.device)


def spec_of(name: str, hello: Mapping[str, Any]) -> TaskSpec:
    """The sizes that the bridge told of; hidden layers and reward scale are those of our own task of that name."""
    sizes = hello["sizes"]
    own = next((spec for spec in TASK_SPECS.values() if _plain(spec.name) == _plain(name)), None)
    return TaskSpec(
        name=f"{PREFIX}:{name}",
        alias=f"{PREFIX}:{name}",
        num_obs=sizes["num_obs"],
        num_actions=sizes["num_actions"],
        hidden=own.hidden if own else HIDDEN,
        episode_steps=hello["episode_steps"],
        step_s=hello["step_s"],
        reward_scale=own.reward_scale if own else 1.0,
    )


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
