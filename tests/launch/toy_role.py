"""The code of the learner in `toy_learner.py`: its role and its probe, over one replica."""

from pathlib import Path

import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.roles.probes.probe import ReplicaProbe
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.holistic import Holistic
from gmi_drl.roles.training.iteration_stats import exchange_stats


class Reinforce:
    def __init__(self, task, config, reduction, seed):
        self.config, self.reduction, self.clock = config.learner, reduction, PhaseClock(task.device)
        self.seed = seed
        self.agent = make_agent(task.spec, self.config, task.device, seed=config.seed)
        policy = self.agent.policy
        self.flat = FlatParameters(policy.parameters_in_order(), tail=0, make_bucket=reduction.bucket)
        self.attach_task(task)

    def attach_task(self, task):
        self.actor = Actor(task, self.agent, self.config, torch.Generator().manual_seed(self.seed))
        self.slot = self.actor.make_slot()

    def detach_task(self):
        self.actor = self.slot = None

    def iterate(self, decide):
        self.clock.start()
        self.actor.collect(self.slot, self.clock)
        rollout, policy = self.slot.rollout, self.agent.policy
        stats = exchange_stats(self.reduction.group, decide(), rollout.sums, rollout.advantage_moments(), rollout.delta)
        rollout.normalise_advantages(stats.advantage_mean, stats.advantage_std)
        self.flat.bucket.zero_()
        density = policy.log_prob(rollout.action, policy.actor(rollout.obs))
        (-density * rollout.advantage).mean().backward()
        self.reduction.reduce(self.flat.bucket)
        with torch.no_grad():
            self.flat.vector.sub_(self.config.learning_rate * self.flat.gradient)
        self.agent.normaliser.merge(stats.deltas)
        self.clock.mark("learn_s")
        return stats

    def phases(self):
        return {**self.clock.read(), "sync_s": 0.0}

    def metrics(self):
        return {"learning_rate": self.config.learning_rate}

    def learner_state(self):
        return {"parameters": self.flat.vector, "normaliser": self.agent.normaliser.statistics}

    def local_state(self):
        return self.actor.state_dict()


class Toy(Holistic):
    def make_replica(self, task, start):
        return Reinforce(task, self.config, self.reduction, self.seed(start, "agent"))


class ToyProbe(ReplicaProbe):
    def make_replica(self, task):
        Path(__file__).with_name(f"probed-{self.GMI_id}").touch()
        return Reinforce(task, self.config, self.mgr.reduction(self.group), self.seed("agent"))

    def detach_task(self):
        if self.replica is not None:
            self.replica.detach_task()

    def attach_task(self, task):
        if self.replica is None:
            self.replica = self.make_replica(task)
        else:
            self.replica.attach_task(task)
