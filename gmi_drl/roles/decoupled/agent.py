"""The agent of asynchronous training: simulator and policy on one GMI, without a learner (section 5.1)."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.comm.channels import AgentEnd
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.layout.experience import FACTS
from gmi_drl.roles.decoupled.channel_setup import channel_sizes
from gmi_drl.roles.decoupled.rollout_writer import RolloutWriter, make_rollout_writer
from gmi_drl.roles.decoupled.startup import send_task_info
from gmi_drl.roles.decoupled.trainer_connection import connect_to_trainers
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.seeds import seed_of, start_of
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.roles.training.actor import Actor
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.run.phases import ACT, SIMULATE
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of


class ExperienceAgent(DRL_role):
    """Plays one rollout after another with the newest policy, until the trainers end the experience."""

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Send rollouts. Returns how many.

        Args:
            resume: The checkpoint that the trainers go on from. An agent's environments begin anew.
        """
        config, start, trainers = self.mgr.configure(), start_of(resume), connect_to_trainers(self.mgr)
        nth = f" {self.mgr.predecessors}" if self.mgr.predecessors else ""  # a restarted agent has another seed
        task_seed = seed_of(config, start, self.GMI_id, f"task{nth}")
        torch.manual_seed(task_seed)  # some simulators draw from torch's own generator
        task = open_task(self.mgr, config, self.mgr.gmi.num_env, task_seed)
        send_task_info(self.mgr, task, trainers)
        terms, device = terms_of(task), self.mgr.device
        noise = torch.Generator(device).manual_seed(seed_of(config, start, self.GMI_id, f"agent{nth}"))
        actor, follower = self.make_player(task, config, noise)
        sizes = channel_sizes(self.mgr, config, task.spec, len(terms.names) if terms else 0, follower.parameters)
        writer = make_rollout_writer(sizes, device)
        with closing(trainers.open(sizes)) as end:
            return {"rollouts": RolloutLoop(actor, follower, writer, end).run()}

    def make_player(
        self, task: Task, config: RunConfig, noise: torch.Generator
    ) -> tuple["RolloutPlayer", "PolicyFollower"]:
        """What plays rollouts in a task, and what keeps its policy at the newest version.

        A subclass may play for learners of another kind.
        """
        learner = acting_of(config)
        agent, vector = new_actor_critic(task.spec, config, self.mgr.device)
        evaluate = partial(agent.evaluate_actions, config=learner)
        actor = Actor(task, agent, learner, noise, evaluate=evaluate, cuda_graphs=config.cuda_graphs)
        return actor, PolicyFollower(agent.normaliser, [vector])


class RolloutPlayer(Protocol):
    """Fills rollouts: `training.actor.Actor`, or a ring."""

    def collect(self, slot: Slot, clock: PhaseClock, after_step: Callable[[int], None]) -> None:
        """See `Actor.collect`."""

    def facts(self) -> Mapping[str, float]:
        """Facts about the last rollout besides those of the loop (`layout.experience.FACTS`)."""


class Follower(Protocol):
    """Decides by which version the next rollout is played."""

    version: int | None

    def update(self, end: AgentEnd) -> None:
        """Take the newest version, after a place was leased."""


class RolloutSender:
    """Leases places for rollouts, and sends what was played.

    Args:
        facts: Returns facts about the last rollout besides those of this object (`layout.experience.FACTS`).
        follower: Sets the version that rollouts are played by.
        writer: Writes rollouts into slots.
        end: Of the channels.
        clock: Of the time of each rollout.

    Attributes:
        sent: The number of rollouts so far.
    """

    def __init__(
        self,
        facts: Callable[[], Mapping[str, float]],
        follower: Follower,
        writer: RolloutWriter,
        end: AgentEnd,
        clock: PhaseClock,
    ) -> None:
        self.follower, self.writer, self.end, self.clock, self._other_facts = follower, writer, end, clock, facts
        self.sent, self._reported_wait_s, self._fetch_s = 0, 0.0, 0.0

    def begin(self) -> bool:
        """Lease a place for the next rollout. Returns whether there is one: not if the experience has ended."""
        if (leased := self.end.lease()) is None:
            return False
        began_s = time.perf_counter()
        self.follower.update(self.end)  # after the lease, which may wait, to bound the lag
        self._fetch_s = time.perf_counter() - began_s
        self.writer.begin(leased)
        return True

    def send(self) -> None:
        """Send the rollout that was played."""
        self.writer.end(self._facts())

    def _facts(self) -> Tensor:
        self.sent += 1
        phases = self.clock.read()
        waited_s, self._reported_wait_s = self.end.wait_s - self._reported_wait_s, self.end.wait_s
        facts = {
            "version": self.follower.version or 0,
            "sim_s": phases[SIMULATE.name],
            "act_s": phases[ACT.name],
            "wait_s": waited_s,
            "fetch_s": self._fetch_s,
            **self._other_facts(),
        }
        return torch.tensor([float(facts.get(name, 0.0)) for name in FACTS], dtype=torch.float64)


class RolloutLoop:
    """Plays rollouts into leased slots, each with the newest policy.

    Args:
        actor: Plays.
        follower: Sets the version that it plays by.
        writer: Writes rollouts into slots.
        end: Of the channels.
    """

    def __init__(self, actor: RolloutPlayer, follower: Follower, writer: RolloutWriter, end: AgentEnd) -> None:
        self.actor, self.clock = actor, PhaseClock(writer.rollout.obs.device)
        self._sender = RolloutSender(actor.facts, follower, writer, end, self.clock)
        self._slot = Slot(writer.rollout, cuda_graphs=False)  # a writer may give its rollout other tensors

    def run(self) -> int:
        """Play until the experience has ended. Returns the number of rollouts."""
        while self._sender.begin():
            self.clock.start()
            self.actor.collect(self._slot, self.clock, self._sender.writer.after_step)
            self.clock.mark(ACT.name)  # evaluating, too
            self._sender.send()
        return self._sender.sent


class PolicyFollower:
    """Keeps an agent at the newest version of the policy that trainers publish.

    Args:
        normaliser: Of the agent's observations.
        parameters: What it acts by: the vector that its parameters are views of, and what else trainers publish after
            the normaliser's statistics, which is written in place.
    """

    def __init__(self, normaliser: Normaliser, parameters: Sequence[Tensor]) -> None:
        self._normaliser, self._statistics = normaliser, torch.zeros_like(normaliser.statistics)
        self.parameters = [parameters[0], self._statistics, *parameters[1:]]
        self.version: int | None = None

    def update(self, end: AgentEnd) -> None:
        """Read the newest version if the agent has an older one. Waits for the first version."""
        if self.version is not None and end.parameters.newest_version() == self.version:
            return
        self.version = end.parameters.read_into(self.parameters)
        self._normaliser.load(self._statistics)
