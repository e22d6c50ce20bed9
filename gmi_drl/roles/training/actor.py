"""The actor: simulator and agent in turn on one GMI, `horizon` times (paper section 5.1, stage i)."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.config.learners import OurConfig
from gmi_drl.cuda_graph import Captured
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.episodes import Episodes, stagger
from gmi_drl.roles.training.policy_step import PolicyStep
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of


class Actor:
    """Fills slots with evaluated rollouts; nothing within the horizon waits for the device.

    First episodes, which are cut short to stagger them, count like others, as with rsl_rl.

    Args:
        task: The environments, already on their first observation.
        agent: Acts in them and evaluates the rollouts. It may be trained, too.
        config: Horizon, discount, reward scale and bootstrap; of any learner of ours.
        generator: Of the noise, on the task's device.
        evaluate: Completes a rollout when its steps are done; None for `Agent.evaluate`, which PPO needs.
        cuda_graphs: Whether the agent acts and evaluates by CUDA graphs, on a GPU.

    Attributes:
        running_episodes: Returns and lengths so far of the episodes that have not ended, `[2, N]`.
        terms: Sums of the terms of the reward; None if the task does not report them.
    """

    def __init__(
        self,
        task: Task,
        agent: Agent,
        config: OurConfig,
        generator: torch.Generator,
        *,
        evaluate: Callable[[Rollout], None] | None = None,
        cuda_graphs: bool = True,
    ) -> None:
        self.task, self.agent, self.config, self.generator = task, agent, config, generator
        self.cuda_graphs = cuda_graphs
        self._episodes = Episodes(task.num_env, task.device)
        self.running_episodes = self._episodes.running
        self._act = PolicyStep(task, agent, cuda_graphs=cuda_graphs)
        self._final_obs = torch.zeros_like(task.obs)
        self._final_value = torch.zeros(task.num_env, device=task.device)
        self._value_final_obs = Captured(self._value, task.device, is_on=cuda_graphs)
        self._evaluate = evaluate or partial(agent.evaluate, config=config)
        self.terms = terms_of(task)
        self._own: tuple[Tensor, Tensor] | None = None  # rewards and ends of the simulator itself, `[T, N]` each
        stagger(task, generator)

    def make_slot(self) -> Slot:
        """Make memory for a rollout of this actor."""
        task = self.task
        form = self.config.rollout_form(task.spec, task.num_env, len(self.terms.names) if self.terms else 0)
        return Slot(Rollout(form, task.device), cuda_graphs=self.cuda_graphs)

    @torch.no_grad()
    def collect(self, slot: Slot, clock: PhaseClock, after_step: Callable[[int], None] = lambda t: None) -> None:
        """Play `horizon` steps into a slot and evaluate them.

        Args:
            slot: Gets the rollout.
            clock: Gets marks of acting and simulating. Evaluating counts for the mark that follows.
            after_step: Called with the number of each step when the task's results are in the rollout.
        """
        act, rollout = self._act, slot.rollout
        rollout.bootstrap.zero_()
        rollout.sums.zero_()
        shape = self.config.horizon, self.task.num_env
        noise = self.agent.policy.distribution.noise(shape, self.generator, self.task.device)
        for t in range(self.config.horizon):
            self._keep_state(rollout, t)
            act(noise[t])
            rollout.obs[t], rollout.action[t], rollout.params[t] = act.obs, act.action, act.params
            clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(act.action)
            clock.mark("sim_s")
            rollout.reward[t], rollout.done[t], rollout.valid[t] = reward, terminated | truncated, info["valid"]
            rollout.sums[4] += info["bad"].sum()
            if "own_reward" in info:
                self._keep_own(t, info)
            self._bootstrap(rollout.bootstrap[t], truncated & info["valid"], info["final_obs"])
            if act.state is not None:
                rollout.value[t] = act.value
                act.forget(terminated | truncated)
            after_step(t)
        self._keep_state(rollout, self.config.horizon)
        self._sum_up(rollout)
        rollout.delta.copy_(self.agent.normaliser.delta(rollout.obs))
        rollout.last_obs.copy_(self.task.obs)
        slot.run(self._evaluate)

    def facts(self) -> dict[str, float]:
        """Empty: nothing is to be told of its own actions."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything but the agent that the next rollout depends on: task, generator of the noise, running episodes."""
        own = {"episode": self.running_episodes, "generator": self.generator.get_state()}
        memory = {} if self._act.state is None else {"memory": self._act.state}
        return prefixed("task", self.task.state_dict()) | own | memory

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`, bit-identically; with new episodes if the task has no state to save."""
        task_state = with_prefix("task", state)
        self.task.load_state_dict(task_state)
        self.generator.set_state(state["generator"])
        self.running_episodes.copy_(state["episode"])
        if self._act.state is not None:
            self._act.state.copy_(state["memory"])
        if not task_state:
            self.running_episodes.zero_()
            self._act.forget(torch.ones_like(self.running_episodes[0], dtype=torch.bool))
            stagger(self.task, self.generator)

    def _keep_state(self, rollout: Rollout, t: int) -> None:
        """Store the state of the memories if a sequence begins with step `t`, or if the rollout ends before it."""
        if self._act.state is not None and rollout.state is not None and t % rollout.sequence == 0:
            rollout.state[t // rollout.sequence].copy_(self._act.state)

    def _value(self) -> None:
        self._final_value.copy_(self.agent.value(self._final_obs, self._act.past))

    def _bootstrap(self, into: Tensor, timed_out: Tensor, final_obs: Tensor) -> None:
        """Write the values that follow time-outs `into` a step's `[N]`; 1 for each with `bootstrap: last_value`."""
        if self.config.bootstrap == "last_value":
            into.copy_(timed_out)  # to be multiplied by the values, which are known after the horizon
        elif timed_out.device.type != "cpu" or timed_out.any():  # asking a GPU would wait for it
            self._final_obs.copy_(final_obs)
            self._value_final_obs()
            torch.mul(self._final_value, timed_out, out=into)

    def _keep_own(self, t: int, info: dict[str, Tensor]) -> None:
        if self._own is None:
            shape = self.config.horizon, self.task.num_env
            self._own = torch.zeros(shape, device=self.task.device), torch.zeros(shape, device=self.task.device)
        self._own[0][t], self._own[1][t] = info["own_reward"], info["own_end"]

    def _sum_up(self, rollout: Rollout) -> None:
        """Go on with the running returns and lengths, and sum up the episodes that ended by a valid step."""
        reward, done = self._own or (rollout.reward, rollout.done)
        rollout.sums[:4] = self._episodes.sum_up(reward, done, rollout.valid)
        if self.terms:
            rollout.sums[5:] = self.terms.pop_sums()
