"""Playing: the policy of a run acts, and is not trained."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent, make_agent
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.config.learners import OurConfig
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.errors import UsageError
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.training.checkpointer import LEARNER_PART
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Episode:
    """One episode of environment `env`; `ended` tells how, "running" if it has not ended."""

    env: int
    total: float
    length: int
    ended: Literal["terminated", "truncated", "bad", "running"]


def require_policy(folder: RunFolder, layout: Layout, config: RunConfig) -> str:
    """The task of a run whose policy an `Agent` can use.

    Raises:
        UsageError: if the run has none.
    """
    if layout.task is None:
        raise UsageError(f"{folder.path}: its layout names no task, so there is nothing to play")
    if not isinstance(config.learner, OurConfig):
        kind = config.learner.kind
        raise UsageError(f"{folder.path} was trained by {kind}: play its files with its own tools (rsl_rl: model_*.pt)")
    return layout.task


def initial_agent(spec: TaskSpec, config: RunConfig) -> Agent:
    """The agent at the start of a run, on the CPU."""
    return new_agent(spec, config, CPU)[0]


def load_agent(folder: RunFolder, spec: TaskSpec, config: RunConfig, device: torch.device = CPU) -> Agent:
    """The agent of a run's newest checkpoint; a training may go on meanwhile.

    Raises:
        UsageError: if there is none, it is broken, the task has changed since, or its sizes are not those of the task
            and the configuration.
    """
    folder.require_task(spec)
    agent, parameters = new_agent(spec, config, device)
    iteration, learner = load_newest_learner(folder)
    saved = learner["parameters"]
    if saved.shape != parameters.shape:
        raise UsageError(
            f"{folder.path} holds {saved.numel()} parameters, but {spec.name} with layers of {config.learner.hidden} "
            f"has {parameters.numel()}: play it with the version that trained it (versions.json)"
        )
    parameters.copy_(saved)
    agent.normaliser.load(learner["normaliser"])
    return replace(agent, iteration=iteration)


class Player:
    """Steps a task with an agent, and keeps the episodes.

    Args:
        task: On the CPU.
        agent: With the task's sizes.
        noise: Generator of the noise; None to act by the mode.
    """

    def __init__(self, task: Task, agent: Agent, noise: torch.Generator | None = None) -> None:
        self.task, self.agent, self.noise = task, agent, noise
        self.finished: list[Episode] = []
        self._state = agent.empty_state(task.num_env)
        self._total = torch.zeros(task.num_env, dtype=torch.float64)
        self._length = torch.zeros(task.num_env, dtype=torch.int64)

    def step(self) -> None:
        """One control step of all environments."""
        noise = None
        if self.noise is not None:
            noise = self.agent.policy.distribution.noise((self.task.num_env,), self.noise, CPU)
        _, reward, terminated, truncated, info = self.task.step(self.agent.act(self.task.obs, noise, self._state))
        if self._state is not None:
            self._state.masked_fill_((terminated | truncated)[:, None], 0)
        self._total += reward * info["valid"]
        self._length += info["valid"]
        ended = (terminated | truncated) & (info["valid"] | info["bad"])  # else the step has begun an episode
        for env in ended.nonzero().flatten().tolist():
            how: Literal["terminated", "truncated", "bad"] = "terminated" if terminated[env] else "truncated"
            self._end(env, "bad" if info["bad"][env] else how)

    def running(self) -> list[Episode]:
        """The episodes that have not ended, one of each environment."""
        totals, lengths = self._total.tolist(), self._length.tolist()
        return [Episode(env, total, lengths[env], "running") for env, total in enumerate(totals)]

    def _end(self, env: int, how: Literal["terminated", "truncated", "bad"]) -> None:
        self.finished.append(Episode(env, self._total[env].item(), int(self._length[env]), how))
        self._total[env], self._length[env] = 0, 0


def new_agent(spec: TaskSpec, config: RunConfig, device: torch.device) -> tuple[Agent, Tensor]:
    """An agent as at the start of a run, and the vector that its parameters are views of, ordered as in checkpoints."""
    agent = make_agent(spec, acting_of(config), device, seed=config.seed)
    flat = FlatParameters(agent.policy.parameters_in_order(), tail=0, make_bucket=partial(torch.zeros, device=device))
    return agent, flat.vector


def load_newest_learner(folder: RunFolder) -> tuple[int, dict[str, Tensor]]:
    """Iteration and learner of the newest checkpoint. Reads again if training removed it meanwhile."""
    saved = checkpoint.list_checkpoints(folder.checkpoints)
    if not saved:
        raise UsageError(f"{folder.path} has no complete checkpoint yet: a training saves its first at once")
    return _read(saved[-1]) or load_newest_learner(folder)


def _read(saved: Path) -> tuple[int, dict[str, Tensor]] | None:
    """Iteration and learner of a checkpoint; None if it was removed meanwhile."""
    try:
        return checkpoint.read_index(saved)["iteration"], checkpoint.read_part(saved, LEARNER_PART)
    except UsageError:
        if saved.exists():
            raise
        return None
