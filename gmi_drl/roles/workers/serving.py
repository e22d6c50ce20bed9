"""Serving by actors and policy workers: a trained policy answers the requests of simulators on other GMIs."""

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import torch

from gmi_drl.algo.agent import Agent
from gmi_drl.config.run_config import RunConfig, acting_of
from gmi_drl.layout.servers import service_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.episode_sums import totals
from gmi_drl.roles.serving.player import load_agent
from gmi_drl.roles.serving.server import Server
from gmi_drl.roles.workers.ends import inline_stream
from gmi_drl.roles.workers.gpu_forward import answering
from gmi_drl.roles.workers.policy import serve
from gmi_drl.roles.workers.requester import Inference
from gmi_drl.roles.workers.served_policies import parts_of_policies
from gmi_drl.roles.workers.served_ring import ServedRing, ServedShare
from gmi_drl.roles.workers.stream_setup import open_client, open_server, stream_sizes
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec, spec_of


class ServedActor(Server):
    """Serves as `Server` does: a ring whose members act by policy workers, or by an agent beside them."""

    def GMI_run(self, steps: int, seed: int, stochastic: bool, *others: Any, **more: Any) -> dict[str, Any]:
        """See `Server`; at the end, also after an error, policy workers expect no more requests.

        Member m of a ring has the environments and the noise of `gmi-drl play` with the seed `serving_seed(seed, n)`,
        where n counts the members of all actors. It waits for the policy workers, for as long as others may load. Of
        several policies the result has the sums of each.

        Args:
            steps: See `Server`.
            seed: See `Server`.
            stochastic: See `Server`.
            *others: Of recording, which is for GMIs without rings.
            **more: The same, by name.
        """
        config, tasks, gmi = self.mgr.configure(), list[Task](), self.mgr.gmi
        seeds = [serving_seed(seed, self.number * gmi.ring + member) for member in range(gmi.ring)]
        for own_seed in seeds:
            torch.manual_seed(own_seed)  # some simulators draw from torch's own generator
            tasks.append(open_task(self.mgr, config, gmi.num_env // gmi.ring, own_seed))
        generators = [torch.Generator().manual_seed(one) if stochastic else None for one in seeds]
        with ExitStack() as opened:

            def inferences(seen: Sequence[GMI_manager]) -> list[Inference]:
                return _open_inferences(seen, tasks[0].spec, opened)

            if not config.policies:
                (inference,) = inferences([self.mgr])
                share = ServedShare(tasks, inference, acting_of(config), generators)
                return self._serve(ServedRing(tasks, [share]), steps, config.learner.horizon)
            shares, frozen = parts_of_policies(self.mgr, config, tasks, generators, inferences)
            ring = ServedRing(tasks, list(shares.values()), list(frozen.values()))
            served = self._serve(ring, steps, config.learner.horizon)
            sums = zip([*shares, *frozen], map(totals, ring.sums_of_parts), strict=True)
            return served | {"policies": dict(sums)}

    @property
    def number(self) -> int:
        """See `Server`."""
        return [gmi.id for gmi in self.mgr.layout.with_role("simulator")].index(self.GMI_id)


class ServingPolicyWorker(DRL_role):
    """Acts for the actors that it serves, by the policy of its run folder, until all have left."""

    def GMI_run(self, **params: Any) -> dict[str, Any]:
        """Answer. Returns how many requests and batches there were.

        Args:
            **params: Of serving; they concern the actors.
        """
        mgr, config = self.mgr, self.mgr.configure()
        spec = _receive_task(mgr)
        agent = _load(mgr, config, spec)
        with (
            closing(open_server(mgr, stream_sizes(mgr, config, spec), lambda: 0, LOADING_S)) as server,
            answering([agent], server, mgr.device, cuda_graphs=config.cuda_graphs) as forward,
        ):
            return serve(server, FixedPolicy(agent), forward)


@dataclass(frozen=True)
class FixedPolicy:
    """A policy that does not change, as `policy.serve` takes it: version 0.

    Attributes:
        wait_s: 0: nobody waits for a version.
    """

    agent: Agent
    wait_s: float = 0.0

    def at_least(self, version: int) -> tuple[Agent, int]:
        """The agent, and its version."""
        return self.agent, version


def _open_inferences(seen: Sequence[GMI_manager], spec: TaskSpec, opened: ExitStack) -> list[Inference]:
    """Who gives an actor's actions, as each policy sees it: its policy worker, or an agent of this process."""
    configs = [mgr.configure() for mgr in seen]
    if "agent" in seen[0].gmi.roles:
        pairs = zip(seen, configs, strict=True)
        return [inline_stream(config, spec, _load(mgr, config, spec), mgr.gmi) for mgr, config in pairs]
    for mgr in seen:  # all policy workers load at the same time
        _send_task(mgr, spec)
    sizes = [stream_sizes(mgr, config, spec) for mgr, config in zip(seen, configs, strict=True)]
    return [opened.enter_context(closing(open_client(*one))) for one in zip(seen, sizes, strict=True)]


def _load(mgr: GMI_manager, config: RunConfig, spec: TaskSpec) -> Agent:
    agent = load_agent(RunFolder(mgr.run_folder), spec, config, mgr.device)
    assert isinstance(agent, Agent)  # as its template has checked
    return agent


def _send_task(mgr: GMI_manager, spec: TaskSpec) -> None:
    """Send a policy worker the task's sizes, once, from the first of its actors."""
    server, first = _first_client_of(mgr)
    if mgr.gmi.id == first:
        Peer(mgr, server).send(json.dumps(spec.to_json()))


def _receive_task(mgr: GMI_manager) -> TaskSpec:
    _, first = _first_client_of(mgr)
    return spec_of(json.loads(Peer(mgr, first).receive(LOADING_S)))


def _first_client_of(mgr: GMI_manager) -> tuple[int, int]:
    """The policy worker of this GMI, or this one itself, and the first of its actors."""
    service = service_of(mgr.layout, mgr.gmi.id)
    found: Sequence[tuple[int, tuple[int, ...]]] = tuple(zip(service.servers, service.clients, strict=True))
    return next((server, actors[0]) for server, actors in found if mgr.gmi.id in (server, *actors))
