"""The agent of asynchronous training from replay: simulator and policy on one GMI, which explore."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.config.run_config import RunConfig
from gmi_drl.replay.ring import NEXT
from gmi_drl.roles.decoupled.agent import ExperienceAgent, PolicyFollower
from gmi_drl.roles.replay.actor import ReplayActor
from gmi_drl.roles.replay.learner import off_policy_of
from gmi_drl.roles.serving.player import new_agent
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.tasks import Task


class ReplayExperienceAgent(ExperienceAgent):
    """Plays as `ExperienceAgent`, for DQN and SAC: trainers publish the share of random actions with their policy."""

    def make_player(
        self, task: Task, config: RunConfig, noise: torch.Generator
    ) -> tuple["ReplayRollouts", PolicyFollower]:
        """See `ExperienceAgent`."""
        agent, vector = new_agent(task.spec, config, self.mgr.device)
        assert isinstance(agent, ReplayAgent)
        horizon = off_policy_of(config).horizon
        actor = ReplayActor(task, agent, horizon, noise, cuda_graphs=config.cuda_graphs)
        return ReplayRollouts(actor), PolicyFollower(agent.normaliser, [vector, agent.policy.exploration])


class ReplayRollouts:
    """Fills rollouts by an actor; see `decoupled.agent.RolloutPlayer`.

    Args:
        actor: Plays.
    """

    def __init__(self, actor: ReplayActor) -> None:
        self.actor = actor

    @torch.no_grad()
    def collect(self, slot: Slot, clock: PhaseClock, after_step: Callable[[int], None]) -> None:
        """See `Actor.collect`."""
        actor, rollout = self.actor, slot.rollout
        actor.collect(RolloutSteps(rollout, after_step), clock, lambda t: None)
        rollout.delta.copy_(actor.agent.normaliser.delta(rollout.obs))
        rollout.sums.copy_(actor.sums)
        rollout.last_obs.copy_(actor.task.obs)

    def facts(self) -> dict[str, float]:
        """Empty: nothing is to be told of its own actions."""
        return {}


class RolloutSteps:
    """Writes steps into a rollout, one after another; see `StepSink`.

    Args:
        rollout: For learners from replay.
        after_step: Called with the number of each step when it is there.
    """

    def __init__(self, rollout: Rollout, after_step: Callable[[int], None]) -> None:
        self.is_twice = rollout.next_obs is not None
        self._rollout, self._after_step, self._t = rollout, after_step, 0

    def add(self, fields: Mapping[str, Tensor], boundary: Tensor, valid: Tensor) -> None:
        """See `Ring.add`."""
        rollout, t = self._rollout, self._t
        assert rollout.terminated is not None
        rollout.obs[t], rollout.action[t], rollout.reward[t] = fields["obs"], fields["action"], fields["reward"]
        rollout.terminated[t], rollout.done[t], rollout.valid[t] = fields["terminated"], boundary, valid
        if rollout.next_obs is not None:
            rollout.next_obs[t] = fields[NEXT + "obs"]
        self._after_step(t)
        self._t += 1
