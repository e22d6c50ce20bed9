"""Tasks of IsaacGymEnvs (Isaac Gym preview), which run in a process of their own: `isaacgym:Ant`.

Isaac Gym is closed and needs Python 3.8 or older, so it runs in the interpreter that GMI_DRL_SIMULATOR_PYTHON names
(`--simulator-python`), as a child of the GMI and on its cores and GPU, and meets it in shared memory. All tensors pass
through the host: with a GPU, observations are copied from it by the simulator's process and to it by this one, since
neither can see the other's memory.
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
from gmi_drl.tasks.adapters.base import HIDDEN, AdaptedTask, Outcome, in_words
from gmi_drl.tasks.adapters.isaacgym_process import START_S, STEP_S, BridgeProcess
from gmi_drl.workload import TASK_SPECS, TaskSpec

PREFIX = "isaacgym"


def make_task(rest: str, *, num_env: int, device: str = "cpu", seed: int = 0, threads: int = 1) -> "IsaacGymTask":
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
    order = {"task": rest, "num_env": num_env, "device": device, "seed": seed, "threads": threads}
    return IsaacGymTask(BridgeProcess(simulator_python(), order), rest, device)


def simulator_python() -> Path:
    """The interpreter that has Isaac Gym.

    Raises:
        MachineError: None is named, or it cannot be run.
    """
    named = os.environ.get(SIMULATOR_PYTHON, "")
    if not named:
        remedy = f"name one with --simulator-python PATH or {SIMULATOR_PYTHON}"
        raise MachineError(f"Isaac Gym needs an interpreter of its own (Python 3.8 or older): {remedy}")
    found = shutil.which(named)
    if found is None:
        raise MachineError(f"{SIMULATOR_PYTHON} names {named}, which is no program that can be run: give its path")
    return Path(found).absolute()  # not resolved: a virtual environment is known by the link


class IsaacGymTask(AdaptedTask):
    """See `AdaptedTask`. A world that ended spends one step on its reset, which is no transition (`valid` is False).

    IsaacGymEnvs resets lazily. Where an episode ends, `step` returns its last observation, which is `final_obs` and,
    because nothing newer is known, `obs`. The next step resets the world: after the physics in some tasks (Ant,
    Humanoid, Anymal, FrankaCabinet), whose action is then lost, before it in others (BallBalance, ShadowHand), where an
    action that was chosen for the old episode moves the new one. In neither has the policy seen the state that it acted
    on, so for both that step has reward 0, is not valid and ends as truncated, and the episode begins with the
    observation that it returns. In the second kind a step of the time limit is over by then.

    A learner that writes `episode_length` does not move the simulator's own count.
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
        told = self._ask(bridge.RESET, START_S)
        self._has_ended = told["done"] | told["bad"]
        return told["obs"]

    def _simulate(self, action: Tensor) -> Outcome:
        self._host["action"].copy_(action)
        told = self._ask(bridge.STEP, STEP_S)
        obs, done, timed_out = told["obs"], told["done"], told["timed_out"]
        began, self._has_ended = self._has_ended, done | told["bad"]
        return Outcome(obs, told["reward"], done & ~timed_out, done & timed_out, final_obs=obs, began=began)

    def _ask(self, word: bytes, deadline_s: float) -> dict[str, Tensor]:
        """What the bridge tells, on the device; on the CPU it is the shared memory itself."""
        self._process.ask(word, deadline_s)
        return {name: array.to(self._device) for name, array in self._host.items() if name != "action"}


def spec_of(name: str, hello: Mapping[str, Any]) -> TaskSpec:
    """What the bridge told of; all else is as in our own task of that name, if there is one."""
    told: dict[str, Any] = {
        "name": f"{PREFIX}:{name}",
        "alias": f"{PREFIX}:{name}",
        "num_obs": hello["sizes"]["num_obs"],
        "num_actions": hello["sizes"]["num_actions"],
        "episode_steps": hello["episode_steps"],
        "step_s": hello["step_s"],
        "action_bounds": in_words(_box(*_clipped(hello))),
    }
    own = next((spec for spec in TASK_SPECS.values() if _plain(spec.name) == _plain(name)), None)
    return replace(own, **told) if own else TaskSpec(hidden=HIDDEN, **told)


def _clipped(hello: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """The bounds of actions after the task has clipped them: beyond `clip`, which may be infinite."""
    low, high = ([min(max(bound, -hello["clip"]), hello["clip"]) for bound in hello[side]] for side in ("low", "high"))
    return low, high


def _box(low: list[float], high: list[float]) -> SimpleNamespace:
    return SimpleNamespace(low=low, high=high, shape=(len(low),))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
