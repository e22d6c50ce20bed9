"""Playing with several policies: each acts for its agents of the worlds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gmi_drl.algo.policy import ActingAgent
from gmi_drl.config.policies import agents_of
from gmi_drl.config.run_config import RunConfig, policy_config
from gmi_drl.roles.serving.player import CPU, EpisodePlayer, initial_agent, load_agent
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.frozen import with_own_copies
from gmi_drl.tasks import Task


@dataclass(frozen=True)
class ActingPart:
    """One policy's agent, the rows in which it acts, int64, and the state of its memories there; None without."""

    agent: ActingAgent
    rows: Tensor
    state: Tensor | None

    def act(self, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Actions of the rows, for the observations of all; with noise of the generator, or the most likely ones."""
        noise = None
        if generator is not None:
            noise = self.agent.policy.distribution.noise((len(self.rows),), generator, CPU)
        return self.agent.act(obs[self.rows], noise, self.state)

    def receive(self, reward: Tensor, valid: Tensor) -> None:
        """Tell the agent the rewards of its last actions, and which were transitions, from those of all rows."""
        self.agent.receive(reward[self.rows], valid[self.rows], self.state)

    def forget(self, ended: Tensor) -> None:
        """Begin anew in rows whose episodes have ended, of all rows."""
        if self.state is not None:
            self.state.masked_fill_(ended[self.rows][:, None], 0)


class PoliciesPlayer(EpisodePlayer):
    """Steps a task with the agents of several policies.

    Args:
        task: On the CPU.
        agents: Of each policy, with the indices of its agents in a world.
        noise: Generator of the noise; None to act by the mode.
        iteration: See `EpisodePlayer`: of the policy that was trained least.
    """

    def __init__(
        self,
        task: Task,
        agents: Sequence[tuple[ActingAgent, Sequence[int]]],
        noise: torch.Generator | None,
        iteration: int,
    ) -> None:
        super().__init__(task)
        self._noise, self._iteration = noise, iteration
        found = [(agent, rows_of(task, own)) for agent, own in agents]
        self._parts = [ActingPart(agent, rows, agent.empty_state(len(rows))) for agent, rows in found]

    @property
    def iteration(self) -> int:
        """See `EpisodePlayer`."""
        return self._iteration

    def actions(self) -> Tensor:
        """See `EpisodePlayer`."""
        actions = torch.zeros(self.task.num_env, self.task.spec.action.size)
        for part in self._parts:
            actions[part.rows] = part.act(self.task.obs, self._noise)
        return actions

    def receive(self, reward: Tensor, valid: Tensor) -> None:
        """See `EpisodePlayer`."""
        for part in self._parts:
            part.receive(reward, valid)

    def forget(self, ended: Tensor) -> None:
        """See `EpisodePlayer`."""
        for part in self._parts:
            part.forget(ended)


def load_policies_player(
    folder: RunFolder, config: RunConfig, task: Task, noise: torch.Generator | None, *, untrained: bool
) -> PoliciesPlayer:
    """A player with the newest version of all policies of a run.

    Args:
        folder: Of the run.
        config: Of the run.
        task: On the CPU.
        noise: Generator of the noise; None to act by the mode.
        untrained: Whether those that learn play as at the start of the run.

    Raises:
        UsageError: See `load_agent`.
    """
    config = with_own_copies(config, folder)
    agents, iterations = list[tuple[ActingAgent, Sequence[int]]](), list[int]()
    rows = agents_of(config.policies, task.spec.agent_names, task.spec.name)
    for name in sorted(rows, key=lambda one: config.policies[one].checkpoint is not None):  # noise as in serving
        own, checkpoint = rows[name], config.policies[name].checkpoint
        if untrained and checkpoint is None:
            agents.append((initial_agent(task.spec, policy_config(config, name)), own))
        else:
            source = folder.policy(name) if checkpoint is None else RunFolder(Path(checkpoint))
            agents.append((load_agent(source, task.spec, source.read_setup()[1]), own))
        if checkpoint is None:
            iterations.append(agents[-1][0].iteration)
    return PoliciesPlayer(task, agents, noise, min(iterations))


def rows_of(task: Task, agents: Sequence[int]) -> Tensor:
    """The rows of some agents, int64: worlds of K agents lie one after another."""
    return torch.arange(task.num_env).view(-1, task.spec.agents)[:, list(agents)].flatten()
