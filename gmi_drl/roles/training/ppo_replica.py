"""One iteration end to end: actor and learner of a GMI use one slot in turn (TCG_EX).

act       `horizon` times: policy -> task.step -> slot                        roles/training/actor.py, policy_step.py
          then values, log densities and advantages of all steps at once      algo/agent.py
exchange  one gather of sums, moments and rank 0's decision                   roles/training/iteration_stats.py
learn     epochs x mini-batches: gradient -> sum over the group -> Adam       roles/training/learner.py, algo/ppo.py
"""

import gc
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig, ppo_of
from gmi_drl.cuda_graph import WARM_UP_CALLS
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats, exchange_stats
from gmi_drl.roles.training.learner import Learner
from gmi_drl.roles.training.replica import LearnerReplica
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec


class RolloutSource(Protocol):
    """What a replica needs of an actor, which may be on another GMI."""

    def make_slot(self) -> Slot:
        """Make memory for a rollout."""

    def collect(self, slot: Slot, clock: PhaseClock) -> None:
        """Fill a slot with an evaluated rollout."""

    def state_dict(self) -> dict[str, Tensor]:
        """Everything but the learner that the next rollout depends on."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""


class PPOReplica(LearnerReplica):
    """Trains by PPO; see `Replica`, and for arguments `Learner`. A probe may give a `learner_class` of its own."""

    learner: Learner
    actor: RolloutSource
    slot: Slot

    def __init__(
        self,
        spec: TaskSpec,
        config: RunConfig,
        reduction: Reduction,
        *,
        sample_share: float,
        device: torch.device,
        seed: int,
        learner_class: type[Learner] = Learner,
    ) -> None:
        self.config = config
        learner = learner_class(spec, config, reduction, sample_share=sample_share, device=device, seed=seed)
        super().__init__(learner, device)

    def attach_task(self, task: Task, seed: int) -> None:
        """Act in this task from now on; `seed` is of the noise."""
        noise = torch.Generator(self.device).manual_seed(seed)
        self.act_by(Actor(task, self.learner.agent, ppo_of(self.config), noise, cuda_graphs=self.config.cuda_graphs))

    def act_by(self, actor: RolloutSource) -> None:
        """Learn from this actor from now on."""
        self.actor, self.slot = actor, actor.make_slot()

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """Act, exchange, learn. `decide` is called before the exchange; rank 0's result counts, for all."""
        actor, learner, rollout = self.actor, self.learner, self.slot.rollout
        self.clock.start()
        waited_s = learner.group.wait_s

        # Act: simulator and agent in turn, then the agent evaluates the rollout
        actor.collect(self.slot, self.clock)

        # Exchange what every GMI must know alike
        stats = exchange_stats(learner.group, decide(), rollout.sums, rollout.advantage_moments(), rollout.delta)

        # Learn: every mini-batch's gradients are summed over the group
        learner.update(rollout, stats)
        self.clock.mark("learn_s")
        self.sync_s = learner.group.wait_s - waited_s
        return stats

    def detach_task(self) -> None:
        """Release the task, which the caller closes, and all that was made for it."""
        del self.actor, self.slot
        self.learner.updater.release()
        gc.collect()  # an actor is part of a cycle

    @property
    def warm_up_iterations(self) -> int:
        """Iterations until all take equally long: first calls choose kernels, and on a GPU graphs are captured."""
        return WARM_UP_CALLS + 1 if self.device.type == "cuda" and self.config.cuda_graphs else 1

    def local_state(self) -> dict[str, Tensor]:
        """The state of this replica alone: its task, running episodes, noise and order of samples."""
        return {**self.actor.state_dict(), "learner_generator": self.learner.generator.get_state()}

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`, bit-identically."""
        self.learner.generator.set_state(state["learner_generator"])
        self.actor.load_state_dict(state)
