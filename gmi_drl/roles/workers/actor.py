"""The actor worker: environments that get their actions from a policy worker or an agent beside them (SRL, 2.2.1)."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import torch

from gmi_drl.comm.channels import AgentEnd
from gmi_drl.comm.streams.inline import InlineStream
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.roles.decoupled.agent import Follower, PolicyFollower, RolloutLoop
from gmi_drl.roles.decoupled.channel_setup import channel_sizes
from gmi_drl.roles.decoupled.rollout_writer import make_rollout_writer
from gmi_drl.roles.decoupled.startup import send_task_info
from gmi_drl.roles.decoupled.trainer_connection import connect_to_trainers
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.seeds import seed_of, start_of
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.roles.workers.forward import Forward, Tensors, kinds_of
from gmi_drl.roles.workers.ring import Ring
from gmi_drl.roles.workers.share import Inference
from gmi_drl.roles.workers.stream_setup import open_client, stream_sizes
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of
from gmi_drl.workload import TaskSpec


class VersionAtLease:
    """Notes the newest version when a place was leased: a policy worker answers by that or a later one."""

    version: int | None = None

    def update(self, end: AgentEnd) -> None:
        """See `decoupled.agent.Follower`. Waits for the first version, before which nobody can answer."""
        if self.version is None:
            end.parameters.await_first()
        self.version = end.parameters.newest_version()


class ActorWorker(DRL_role):
    """Plays one rollout after another, until the trainers end the experience."""

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Send rollouts. Returns how many.

        Args:
            resume: The checkpoint that the trainers go on from. Environments begin anew.
        """
        mgr, config, trainers = self.mgr, self.mgr.configure(), connect_to_trainers(self.mgr)
        tasks = self._open_tasks(config, start := start_of(resume))
        send_task_info(self, tasks[0], trainers)
        spec, terms, learner = tasks[0].spec, terms_of(tasks[0]), acting_of(config)
        agent, vector = new_actor_critic(spec, config, mgr.device)
        parameters = [vector, agent.normaliser.statistics]
        sizes = channel_sizes(mgr, config, spec, len(terms.names) if terms else 0, parameters)
        noise = torch.Generator().manual_seed(self._seed(config, start, "agent"))
        with ExitStack() as opened:
            end = opened.enter_context(closing(trainers.open(sizes)))
            follower: Follower
            stream: Inference
            if "agent" in mgr.gmi.roles:
                follower = own = PolicyFollower(agent, vector)
                stream = self._inline(spec, config, own)
            else:
                follower = VersionAtLease()
                stream = opened.enter_context(closing(open_client(mgr, stream_sizes(mgr, config, spec))))
            ring = Ring(tasks, stream, learner, noise, lambda: follower.version or 0)
            return {"rollouts": RolloutLoop(ring, follower, make_rollout_writer(sizes, mgr.device), end).run()}

    def _open_tasks(self, config: RunConfig, start: int) -> list[Task]:
        """The tasks of the ring's members, of which the first has the seed of the GMI of TCG_EX at the same place."""
        gmi, tasks = self.mgr.gmi, []
        for member in range(gmi.ring):
            seed = self._seed(config, start, "task" + (f" {member}" if member else ""))
            torch.manual_seed(seed)  # some simulators draw from torch's own generator
            tasks.append(open_task(self.mgr, config, gmi.num_env // gmi.ring, seed))
        return tasks

    def _seed(self, config: RunConfig, start: int, purpose: str) -> int:
        """A seed for a purpose; another one for a restarted actor."""
        place = [gmi.id for gmi in self.mgr.layout.with_role("simulator")].index(self.GMI_id)
        nth = f" {self.mgr.predecessors}" if self.mgr.predecessors else ""
        return seed_of(config, start, place, f"{purpose}{nth}")

    def _inline(self, spec: TaskSpec, config: RunConfig, follower: PolicyFollower) -> InlineStream:
        """Actions from the agent of this process."""
        gmi, forward = self.mgr.gmi, Forward(self.mgr.device)
        request, answer = kinds_of(spec, config.learner.rollout_form(spec, gmi.num_env), gmi.ring)

        def respond(what: int, requests: Sequence[Tensors], answers: Sequence[Tensors]) -> int:
            forward(follower.agent, what, requests, answers)
            return follower.version or 0

        return InlineStream(request, answer, gmi.ring, respond)
