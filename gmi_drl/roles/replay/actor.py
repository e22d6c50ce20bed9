"""The actor: simulator and agent in turn on one GMI, each step into the ring."""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.replay.ring import NEXT
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.episodes import Episodes, stagger
from gmi_drl.roles.training.policy_step import PolicyStep
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import knows_final_obs, own_outcome
from gmi_drl.tasks.terms import terms_of


class StepSink(Protocol):
    """Gets steps: a ring, a server's table, or a rollout for another GMI."""

    @property
    def is_twice(self) -> bool:
        """Whether `add` gets the observation after each step."""

    def add(self, fields: Mapping[str, Tensor], boundary: Tensor, valid: Tensor) -> None:
        """See `Ring.add`."""


class ReplayActor:
    """Plays `horizon` steps at a time; nothing within them waits for the device.

    Args:
        task: The environments, already on their first observation.
        agent: Acts in them, and is trained.
        horizon: H: steps of `collect`.
        generator: Of the noise, on the task's device.
        keeps_obs: Whether the observations of the last H steps are kept, for their moments.
        cuda_graphs: Whether the agent acts by a CUDA graph, on a GPU.

    Attributes:
        sums: Of the last steps, as `Rollout.sums`, float64 `[5 + K]`.
        obs: Of the last steps, `[H, N, *shape]`; None if they are not kept.
    """

    def __init__(
        self,
        task: Task,
        agent: ReplayAgent,
        horizon: int,
        generator: torch.Generator,
        *,
        keeps_obs: bool = False,
        cuda_graphs: bool = True,
    ) -> None:
        self.task, self.agent, self.horizon, self.generator = task, agent, horizon, generator
        self._act = PolicyStep(task, agent, cuda_graphs=cuda_graphs)
        self._episodes, self.terms = Episodes(task.num_env, task.device), terms_of(task)
        self._knows_ends = knows_final_obs(task)
        self._reward, self._done, self._valid = torch.zeros(3, horizon, task.num_env, device=task.device).unbind()
        self.sums = torch.zeros(
            5 + (len(self.terms.names) if self.terms else 0), dtype=torch.float64, device=task.device
        )
        self.obs = task.obs.new_zeros(horizon, *task.obs.shape) if keeps_obs else None
        stagger(task, generator)

    @torch.no_grad()
    def collect(self, into: StepSink, clock: PhaseClock, before_step: Callable[[int], None]) -> None:
        """Play `horizon` steps.

        Args:
            into: Gets the steps.
            clock: Gets marks of acting and simulating.
            before_step: Called with the number of each step before the agent acts.
        """
        act, self.sums[4] = self._act, 0.0
        shape = self.horizon, self.task.num_env
        noise = self.agent.policy.distribution.noise(shape, self.generator, self.task.device)
        for t in range(self.horizon):
            before_step(t)
            act(noise[t])
            if self.obs is not None:
                self.obs[t] = act.obs
            clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(act.action)
            clock.mark("sim_s")
            done, valid = terminated | truncated, info["valid"]
            self._reward[t], self._done[t] = own_outcome(reward, done, info)
            self._valid[t] = valid
            self.sums[4] += info["bad"].sum()
            step = {"obs": act.obs, "action": act.action, "reward": reward, "terminated": terminated}
            if into.is_twice:
                step[NEXT + "obs"] = info["final_obs"]
                valid = valid if self._knows_ends else valid & (terminated | ~truncated)
            into.add(step, done, valid)
        self.sums[:4] = self._episodes.sum_up(self._reward, self._done, self._valid)
        if self.terms:
            self.sums[5:] = self.terms.pop_sums()

    def state_dict(self) -> dict[str, Tensor]:
        """Task, generator of the noise, running episodes."""
        own = {"episode": self._episodes.running, "generator": self.generator.get_state()}
        return prefixed("task", self.task.state_dict()) | own

    def load_state_dict(self, state: dict[str, Tensor]) -> bool:
        """Continue from `state_dict`, with new episodes if the task has no state to save. Returns whether it had one.

        With new episodes the last step in a ring has no known next one.
        """
        task_state = with_prefix("task", state)
        self.task.load_state_dict(task_state)
        self.generator.set_state(state["generator"])
        self._episodes.running.copy_(state["episode"])
        if not task_state:
            self._episodes.running.zero_()
            stagger(self.task, self.generator)
        return bool(task_state)
