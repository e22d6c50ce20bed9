"""Playing: the policy of a run acts, and is not trained."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent, make_agent
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.policy import ActingAgent
from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.algo.sequence_agent import SequenceAgent
from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.errors import UsageError
from gmi_drl.layout.layout import Layout
from gmi_drl.registry import class_at
from gmi_drl.run import checkpoint
from gmi_drl.run.checkpoint import LEARNER_PART
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import own_outcome
from gmi_drl.workload import TaskSpec

CPU = torch.device("cpu")

AnyAgent = Agent | ReplayAgent | SequenceAgent


@dataclass(frozen=True)
class Episode:
    """One episode of environment `env`; `ended` tells how, "running" if it has not ended."""

    env: int
    total: float
    length: int
    ended: Literal["terminated", "truncated", "bad", "running"]


def require_task(folder: RunFolder, layout: Layout) -> str:
    """The task of a run.

    Raises:
        UsageError: if its layout names none.
    """
    if layout.task is None:
        raise UsageError(f"{folder.path}: its layout names no task, so there is nothing to play")
    return layout.task


def require_policy(folder: RunFolder, layout: Layout, config: RunConfig) -> str:
    """The task of a run whose policy an `Agent` can use.

    Raises:
        UsageError: if the run has none.
    """
    task, kind = require_task(folder, layout), config.learner.kind
    if LEARNERS.find(kind).agent is None:
        raise UsageError(f"{folder.path} was trained by {kind}, whose policies are played, not served")
    return task


def initial_agent(spec: TaskSpec, config: RunConfig) -> AnyAgent:
    """The agent at the start of a run, on the CPU."""
    return new_agent(spec, config, CPU)[0]


def load_agent(folder: RunFolder, spec: TaskSpec, config: RunConfig, device: torch.device = CPU) -> AnyAgent:
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


class EpisodePlayer(ABC):
    """Steps a task by a policy, and keeps the episodes. The policy may be of any library.

    Args:
        task: On the CPU.
    """

    @property
    @abstractmethod
    def iteration(self) -> int:
        """Of the run, after which the policy was saved; 0 if it is untrained."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.finished: list[Episode] = []
        self._total = torch.zeros(task.num_env, dtype=torch.float64)
        self._length = torch.zeros(task.num_env, dtype=torch.int64)

    @abstractmethod
    def actions(self) -> Tensor:
        """Actions `[N, A]` for the current observations."""

    @abstractmethod
    def forget(self, ended: Tensor) -> None:
        """Begin anew in environments `[N]` whose episodes have ended: for policies with a memory."""

    @abstractmethod
    def receive(self, reward: Tensor, valid: Tensor) -> None:
        """Take the rewards `[N]` of the last actions, and which steps were transitions: for policies that count."""

    def step(self) -> None:
        """One control step of all environments."""
        _, reward, terminated, truncated, info = self.task.step(self.actions())
        self.receive(reward, info["valid"])
        self.forget(terminated | truncated)
        reward, ended = own_outcome(reward, terminated | truncated, info)
        self._total += reward * info["valid"]
        self._length += info["valid"]
        ended = ended & (info["valid"] | info["bad"])  # else the step has begun an episode
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


class Player(EpisodePlayer):
    """Steps a task with an agent. rsl_rl's policies have `roles/rsl_rl/player.py`.

    Args:
        task: On the CPU.
        agent: With the task's sizes.
        noise: Generator of the noise; None to act by the mode.
    """

    def __init__(self, task: Task, agent: ActingAgent, noise: torch.Generator | None = None) -> None:
        super().__init__(task)
        self.agent, self.noise = agent, noise
        self._state = agent.empty_state(task.num_env)

    @property
    def iteration(self) -> int:
        """See `EpisodePlayer`."""
        return self.agent.iteration

    def actions(self) -> Tensor:
        """See `EpisodePlayer`."""
        noise = None
        if self.noise is not None:
            noise = self.agent.policy.distribution.noise((self.task.num_env,), self.noise, CPU)
        return self.agent.act(self.task.obs, noise, self._state)

    def receive(self, reward: Tensor, valid: Tensor) -> None:
        """See `EpisodePlayer`."""
        self.agent.receive(reward, valid, self._state)

    def forget(self, ended: Tensor) -> None:
        """See `EpisodePlayer`."""
        if self._state is not None:
            self._state.masked_fill_(ended[:, None], 0)


def new_agent(spec: TaskSpec, config: RunConfig, device: torch.device) -> tuple[AnyAgent, Tensor]:
    """An agent as at the start of a run, and the vector that its parameters are views of, ordered as in checkpoints."""
    kind = config.learner.kind
    make = LEARNERS.find(kind).agent
    if make is None:
        raise UsageError(f"policies of {kind} are played with its own tools")
    agent: AnyAgent = class_at(make)(spec, config.learner, device, seed=config.seed)
    return agent, _vector_of(agent, device)


def new_actor_critic(spec: TaskSpec, config: RunConfig, device: torch.device) -> tuple[Agent, Tensor]:
    """As `new_agent`, of a learner with a policy and a value network."""
    agent = make_agent(spec, acting_of(config), device, seed=config.seed)
    return agent, _vector_of(agent, device)


def _vector_of(agent: AnyAgent, device: torch.device) -> Tensor:
    parameters = agent.policy.parameters_in_order()
    return FlatParameters(parameters, tail=0, make_bucket=partial(torch.zeros, device=device)).vector


def load_newest_learner(folder: RunFolder) -> tuple[int, dict[str, Tensor]]:
    """Iteration and learner of the newest checkpoint. Reads again if training removed it meanwhile."""
    return _read(folder.newest_checkpoint()) or load_newest_learner(folder)


def _read(saved: Path) -> tuple[int, dict[str, Tensor]] | None:
    """Iteration and learner of a checkpoint; None if it was removed meanwhile."""
    try:
        index = checkpoint.read_index(saved, ())
        return index["iteration"], checkpoint.read_part(saved, LEARNER_PART, index)
    except UsageError:
        if saved.exists():
            raise
        return None
