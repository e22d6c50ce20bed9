"""An actor's ends for one policy: its channels to the trainers, and who gives the actions."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from gmi_drl.algo.agent import Agent
from gmi_drl.comm.channels import AgentEnd
from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.streams.inline import InlineStream
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.layout import GMI
from gmi_drl.roles.decoupled.agent import Follower, PolicyFollower
from gmi_drl.roles.decoupled.channel_setup import channel_sizes
from gmi_drl.roles.decoupled.rollout_writer import RolloutWriter, make_rollout_writer
from gmi_drl.roles.decoupled.trainer_connection import TrainerConnection
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.roles.workers.forward import Forward, Tensors, kinds_of
from gmi_drl.roles.workers.requester import Inference
from gmi_drl.roles.workers.stream_setup import open_client, stream_sizes
from gmi_drl.workload import TaskSpec


class VersionAtLease:
    """Notes the newest version when a place was leased: a policy worker answers by that or a later one."""

    version: int | None = None

    def update(self, end: AgentEnd) -> None:
        """See `decoupled.agent.Follower`. Waits for the first version, before which nobody can answer."""
        if self.version is None:
            end.parameters.await_first()
        self.version = end.parameters.newest_version()


@dataclass(frozen=True)
class PolicyEnds:
    """What an actor has of one policy.

    Attributes:
        end: Of the channels.
        follower: Sets the version that rollouts are played by.
        inference: Gives actions.
        writer: Writes rollouts into the channels.
    """

    end: AgentEnd
    follower: Follower
    inference: Inference
    writer: RolloutWriter

    def version(self) -> int:
        """By which the next rollout is played, or by a later one."""
        return self.follower.version or 0


def open_ends(
    mgr: GMI_manager,
    config: RunConfig,
    spec: TaskSpec,
    num_terms: int,
    trainers: TrainerConnection,
    opened: ExitStack,
    server: FramedConnection | None = None,
) -> PolicyEnds:
    """Open an actor's ends for a policy, and wait for the other sides, for as long as simulators may load.

    Args:
        mgr: Of the actor, as the policy sees it.
        config: Of a run with this policy alone.
        spec: The task's sizes.
        num_terms: Terms of the reward that rollouts of this policy tell.
        trainers: Of the policy.
        opened: Closes the ends.
        server: Of `stream_setup.connect_server`.
    """
    agent, vector = new_actor_critic(spec, config, mgr.device)
    sizes = channel_sizes(mgr, config, spec, num_terms, [vector, agent.normaliser.statistics])
    end = opened.enter_context(closing(trainers.open(sizes)))
    writer = make_rollout_writer(sizes, mgr.device)
    if "agent" in mgr.gmi.roles:
        own = PolicyFollower(agent.normaliser, [vector])
        inline = inline_stream(config, spec, agent, mgr.gmi, lambda: own.version or 0)
        return PolicyEnds(end, own, inline, writer)
    client = opened.enter_context(open_client(mgr, stream_sizes(mgr, config, spec), server))
    return PolicyEnds(end, VersionAtLease(), client, writer)


def inline_stream(
    config: RunConfig, spec: TaskSpec, agent: Agent, gmi: GMI, version: Callable[[], int] = lambda: 0
) -> InlineStream:
    """Actions from an agent of this process.

    Args:
        config: Of a run with its policy alone.
        spec: The task's sizes.
        agent: Acts.
        gmi: The actor, as the policy sees it.
        version: Of the agent.
    """
    forward = Forward()  # actors are on cores
    request, answer = kinds_of(spec, config.learner.rollout_form(spec, gmi.num_env), gmi.ring)

    def respond(what: int, requests: Sequence[Tensors], answers: Sequence[Tensors]) -> int:
        forward(agent, what, requests, answers)
        return version()

    return InlineStream(request, answer, gmi.ring, respond)
