"""One replica of a training: the simulator, agent and trainer of a holistic GMI, and one iteration of all three."""

import gc
import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.captured import WARM_UP_CALLS
from gmi_drl.algo.networks import make_policy
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.ppo import PPO
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config import RunConfig, ppo_of
from gmi_drl.roles.agreement import News, Word, agree
from gmi_drl.roles.collector import Collector
from gmi_drl.roles.phases import PhaseClock
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec


class AnyReplica(Protocol):
    """What the holistic role needs of a replica, whoever wrote its learner."""

    def iterate(self, decide: Callable[[], Word]) -> News:
        """One iteration. `decide` is asked before what all GMIs see is exchanged; rank 0's answer counts, for all."""

    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`run.metrics.PHASES`)."""

    def metrics(self) -> Mapping[str, float | str]:
        """Losses of the last update, `learning_rate`, and `warning` where people should be told of something."""

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""

    def learner_state(self) -> dict[str, Tensor]:
        """What all replicas must hold alike."""

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `learner_state`."""

    def worlds_state(self) -> dict[str, Tensor]:
        """What this replica alone holds: its worlds, its noise and its running episodes."""

    def load_worlds_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `worlds_state`."""


class Replica:
    """Holds the same learner as the other GMIs of its group, and worlds of its own.

    Args:
        spec: The task's sizes.
        config: Of the run.
        reduction: Of the group.
        share: Samples that this GMI learns from divided by those of the whole group.
        device: Where everything lives.
        seed: Of the order in which it learns from its samples.
    """

    collector: Collector

    def __init__(
        self,
        spec: TaskSpec,
        config: RunConfig,
        reduction: Reduction,
        *,
        share: float,
        device: torch.device,
        seed: int,
    ) -> None:
        self.config, self.group, self.device = config, reduction.group, device
        learner = ppo_of(config)
        torch.manual_seed(config.seed)  # policies start alike
        self.policy = make_policy(spec, learner).to(device)
        self.ppo = PPO(
            self.policy,
            learner,
            share=share,
            reduce=reduction.reduce,
            make_bucket=reduction.bucket,
            capture=config.cuda_graphs,
        )
        self.normaliser = Normaliser(spec.num_obs, device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.clock = PhaseClock(device)
        self.sync_s = 0.0

    @property
    def warm_up_iterations(self) -> int:
        """Iterations until each is like the next: first calls choose kernels, and on a GPU graphs are made."""
        return WARM_UP_CALLS + 1 if self.device.type == "cuda" and self.config.cuda_graphs else 1

    def leave(self) -> None:
        """Let go of the worlds and of all that was made for them."""
        self.collector.task.close()
        del self.collector
        self.ppo.forget()
        gc.collect()  # a collector is part of a cycle

    def take(self, task: Task, seed: int) -> None:
        """Let the agent act in these worlds from now on; `seed` is of its noise."""
        generator = torch.Generator(self.device).manual_seed(seed)
        self.collector = Collector(
            task, self.policy, self.normaliser, ppo_of(self.config), generator, capture=self.config.cuda_graphs
        )

    def iterate(self, decide: Callable[[], Word]) -> News:
        """Collect, agree, learn. `decide` is asked before the exchange; rank 0's answer counts, for all."""
        self.clock.start()
        waited_s = self.group.wait_s

        # Stage i: simulator and agent collect experience
        delta = self.collector.collect(self.clock)

        # What every GMI must know alike
        news = self._agree(delta, decide())
        self.collector.rollout.normalise_advantages(news.advantage_mean, news.advantage_std)

        # Stages ii and iii: learn, summing gradients over the group at every mini-batch
        self.ppo.update(self.collector.rollout, self._permutation())
        self.normaliser.merge(news.deltas)
        self.clock.mark("learn_s")
        self.sync_s = self.group.wait_s - waited_s
        return news

    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`run.metrics.PHASES`). Waits for the device, once."""
        phases = self.clock.read()
        phases["learn_s"] -= self.sync_s
        return {**phases, "sync_s": self.sync_s}

    def metrics(self) -> dict[str, float]:
        """Losses of the last update and the learning rate. Synchronises with the host."""
        return self.ppo.metrics()

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""
        self.ppo.learning_rate.fill_(rate)

    def learner_state(self) -> dict[str, Tensor]:
        """What all replicas must hold alike."""
        return {**self.ppo.state_dict(), "normaliser": self.normaliser.statistics}

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `learner_state`."""
        self.normaliser.load(state.pop("normaliser"))
        self.ppo.load_state_dict(state)

    def worlds_state(self) -> dict[str, Tensor]:
        """What this replica alone holds: its worlds, its noise, its running episodes and the order of its samples."""
        return {**self.collector.state_dict(), "learner_generator": self.generator.get_state()}

    def load_worlds_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `worlds_state`, bit-identically."""
        self.generator.set_state(state.pop("learner_generator"))
        self.collector.load_state_dict(state)

    def _agree(self, delta: Tensor, word: Word) -> News:
        rollout = self.collector.rollout
        sums = torch.cat((rollout.reward.double().sum().reshape(1), self.collector.episodes))
        return agree(self.group, word, sums, rollout.advantage_moments(), delta)

    def _permutation(self) -> Tensor:
        rollout = self.collector.rollout
        transitions = rollout.horizon * rollout.num_env
        return torch.randperm(transitions, generator=self.generator, device=self.device)


def seed_of(config: RunConfig, iteration: int, gmi_id: int, purpose: str) -> int:
    """A seed that no other GMI, purpose or point of restart shares."""
    text = f"{config.seed}/{iteration}/{gmi_id}/{purpose}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
