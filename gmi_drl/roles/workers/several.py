"""An actor whose agents have several policies: each has channels, streams and rollouts of its own."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.algo.policy import ActingAgent
from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.config.policies import agents_of
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.roles.decoupled.agent import RolloutSender
from gmi_drl.roles.decoupled.startup import send_task_info
from gmi_drl.roles.decoupled.trainer_connection import TrainerConnection, connect_to_trainers
from gmi_drl.roles.launcher.protocol import Acts
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.serving.player import load_agent
from gmi_drl.roles.serving.policies_player import ActingPart, rows_of
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.episodes import stagger
from gmi_drl.roles.workers.ends import open_ends
from gmi_drl.roles.workers.ring import Part, play, sums_of
from gmi_drl.roles.workers.share import Outcome, Share
from gmi_drl.roles.workers.stream_setup import connect_server
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.workload import TaskSpec


class Learning:
    """The part of a policy that learns: its rows and its rollouts, until its experience has ended.

    Args:
        share: Its rows.
        sender: Of its rollouts.
    """

    def __init__(self, share: Share, sender: RolloutSender) -> None:
        self.share, self.sender, self.is_over = share, sender, False

    def lease(self) -> bool:
        """Lease a place for the next rollout. Returns whether there is one. All actors lease in the same order."""
        self.is_over = self.is_over or not self.sender.begin()
        return not self.is_over

    def after_step(self, t: int) -> None:
        """Announce what was written of step `t`."""
        if not self.is_over:
            self.sender.writer.after_step(t)

    def end(self) -> None:
        """Complete the rollout, and send it. One without a place is seen by nobody."""
        self.share.end()
        if not self.is_over:
            self.sender.send()


class Frozen:
    """The part of a policy that learns nothing: the newest of another run. See `ring.Part`.

    Args:
        tasks: Of the members.
        rows: Of each task.
        agent: Acts.
        generators: Of each member's noise; None to act by the mode.
    """

    def __init__(
        self, tasks: Sequence[Task], rows: Tensor, agent: ActingAgent, generators: Sequence[torch.Generator | None]
    ) -> None:
        self.rows: Tensor | None = rows
        self._tasks, self._generators = tasks, generators
        self._acting = [ActingPart(agent, rows, agent.empty_state(len(rows))) for _ in tasks]

    def keep_states(self, t: int) -> None:
        """Do nothing: nobody learns from its states."""

    def post(self, member: int, t: int) -> None:
        """Do nothing: it acts when actions are taken."""

    def take(self, member: int, t: int) -> Tensor:
        """The actions of a member's rows."""
        return self._acting[member].act(self._tasks[member].obs, self._generators[member])

    def write(self, member: int, t: int, outcome: Outcome) -> None:
        """Tell the agent its rewards, and begin anew in rows whose episodes have ended."""
        acting = self._acting[member]
        acting.receive(outcome.reward, outcome.info["valid"])
        acting.forget(outcome.terminated | outcome.truncated)


@dataclass(frozen=True)
class Connections:
    """An actor's connections for one policy: to its trainers, and to its policy worker if that is on another host."""

    trainers: TrainerConnection
    server: FramedConnection | None


def frozen_agent(mgr: GMI_manager, name: str, spec: TaskSpec) -> ActingAgent:
    """The agent of a frozen policy, by its copy in the run folder."""
    folder = RunFolder(mgr.run_folder).frozen(name)
    return load_agent(folder, spec, folder.read_setup()[1])


def connect_all(mgr: GMI_manager, config: RunConfig) -> dict[str, Connections]:
    """The connections of an actor for each policy that learns, by name."""
    names = [name for name, section in config.policies.items() if section.checkpoint is None]
    seen = {name: mgr.of_policy(name) for name in names}
    return {name: Connections(connect_to_trainers(one), connect_server(one)) for name, one in seen.items()}


def play_several(
    mgr: GMI_manager,
    config: RunConfig,
    connections: Mapping[str, Connections],
    tasks: Sequence[Task],
    seed: Callable[[str], int],
) -> int:
    """Play rollouts of all policies, until the experience of each has ended. Returns how many were sent.

    Args:
        mgr: Of the actor.
        config: Of the run.
        connections: Of `connect_all`.
        tasks: Of the ring's members.
        seed: Returns the seed for a purpose.
    """
    spec, first = tasks[0].spec, tasks[0]
    agents = agents_of(config.policies, spec.agent_names, spec.name)
    clock, parts, learning = PhaseClock(mgr.device), list[Part](), list[Learning]()
    staggering = _generator(seed("agent"))
    for task in tasks:
        stagger(task, staggering)
    with ExitStack() as opened:
        found = list[tuple[str, GMI_manager]]()
        for name, section in config.policies.items():
            if section.checkpoint is None:
                seen = mgr.of_policy(name, (len(agents[name]), spec.agents))
                found.append((name, seen))
                send_task_info(seen, first, connections[name].trainers, tells_terms=len(found) == 1)
            else:
                agent = frozen_agent(mgr, name, spec)
                noise = [_generator(seed(f"agent {name}"))] * len(tasks)
                parts.append(Frozen(tasks, rows_of(first, agents[name]), agent, noise))
        for name, seen in found:
            own, joined = seen.configure(), connections[name]
            terms = terms_of(first) if not learning else None
            num_terms = len(terms.names) if terms else 0
            ends = open_ends(seen, own, spec, num_terms, joined.trainers, opened, joined.server)
            share = Share(
                tasks,
                ends.inference,
                acting_of(own),
                _generator(seed(f"agent {name}")),
                ends.version,
                rows_of(first, agents[name]),
                sums_of(tasks) if terms else None,
            )
            learning.append(Learning(share, RolloutSender(share.facts, ends.follower, ends.writer, ends.end, clock)))
        mgr.launcher.deliver(Acts())
        _play(tasks, [*(one.share for one in learning), *parts], learning, acting_of(own).horizon, clock)
    return sum(one.sender.sent for one in learning)


@torch.no_grad()
def _play(
    tasks: Sequence[Task], parts: Sequence[Part], learning: Sequence[Learning], horizon: int, clock: PhaseClock
) -> None:
    def after_step(t: int) -> None:
        for one in learning:
            one.after_step(t)

    while _lease_all(learning):
        clock.start()
        for one in learning:
            one.share.begin(one.sender.writer.rollout)
        play(tasks, parts, horizon, clock, after_step)
        clock.mark("act_s")
        for one in learning:
            one.end()


def _lease_all(learning: Sequence[Learning]) -> bool:
    """Lease a place of each policy for the next rollout. Returns whether there is one.

    While this waits for trainers of one policy, which may stand still, those of the others are told so: else they would
    name this actor first.
    """
    found = False
    for one in learning:
        others = [other.sender.end for other in learning if other is not one]
        for end in others:
            end.note_elsewhere(waits=True)
        found |= one.lease()
        for end in others:
            end.note_elsewhere(waits=False)
    return found


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
