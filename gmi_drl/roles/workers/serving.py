"""Serving by actors and policy workers: a trained policy answers the requests of simulators on other GMIs."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.policy import ActingAgent, Policy
from gmi_drl.comm.streams import StreamClient
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.servers import service_of
from gmi_drl.layout.waits import LOADING_S
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.peer import Peer
from gmi_drl.roles.serving.player import load_agent
from gmi_drl.roles.serving.server import Server
from gmi_drl.roles.serving.service import Service
from gmi_drl.roles.workers.forward import Forward
from gmi_drl.roles.workers.policy import serve
from gmi_drl.roles.workers.stream_setup import open_client, open_server, stream_sizes
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.phases import ACT, WAIT
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec, spec_of


class StreamAgent:
    """Acts by the answers of a policy worker. See `algo.policy.ActingAgent`.

    Args:
        agent: The same policy, for what it is; it does not act.
        client: With one member.
    """

    def __init__(self, agent: ActingAgent, client: StreamClient) -> None:
        self._agent, self._client = agent, client

    @property
    def policy(self) -> Policy:
        """See `ActingAgent`."""
        return self._agent.policy

    @property
    def normaliser(self) -> Normaliser:
        """See `ActingAgent`."""
        return self._agent.normaliser

    @property
    def iteration(self) -> int:
        """See `ActingAgent`."""
        return self._agent.iteration

    def empty_state(self, num_env: int) -> Tensor | None:
        """See `ActingAgent`."""
        return self._agent.empty_state(num_env)

    def receive(self, reward: Tensor, state: Tensor | None) -> None:
        """See `ActingAgent`."""
        self._agent.receive(reward, state)

    def act(self, obs: Tensor, noise: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """See `ActingAgent`."""
        if noise is None:
            noise = torch.zeros_like(self._client.requests[0]["noise"])
        return self.sample(obs, noise, state)[0]

    def sample(self, obs: Tensor, noise: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """See `ActingAgent`. The params of the distributions stay with the policy worker: here they are zeros."""
        request = self._client.requests[0]
        request["obs"].copy_(obs)
        request["noise"].copy_(noise)
        if state is not None:
            request["state"].copy_(state)
        self._client.post(0)
        answer = self._client.take(0).tensors
        if state is not None:
            state.copy_(answer["state"])
        return answer["action"], torch.zeros_like(noise), None


class ServedActor(Server):
    """Serves as `Server` does, by a policy worker's answers. It reports for both."""

    _client: StreamClient | None = None
    _waited_s = 0.0

    def GMI_run(self, *args: Any, **params: Any) -> dict[str, Any]:
        """See `Server`; at the end, also after an error, the policy worker expects no more requests."""
        try:
            return super().GMI_run(*args, **params)
        finally:
            if self._client is not None:
                self._client.close()

    @property
    def number(self) -> int:
        """See `Server`."""
        return [gmi.id for gmi in self.mgr.layout.with_role("simulator")].index(self.GMI_id)

    def make_agent(self, task: Task, config: RunConfig) -> ActingAgent:
        """See `Server`. Waits for the policy worker, for as long as others may load."""
        agent = super().make_agent(task, config)
        _send_task(self.mgr, task.spec)
        self._client = open_client(self.mgr, stream_sizes(self.mgr, config, task.spec))
        return StreamAgent(agent, self._client)

    def phases(self, service: Service) -> dict[str, float]:
        """See `Server`; waiting for answers is not acting."""
        phases = super().phases(service)
        assert self._client is not None
        waited_s, self._waited_s = self._client.wait_s - self._waited_s, self._client.wait_s
        return {**phases, ACT.name: max(0.0, phases[ACT.name] - waited_s), WAIT.name: waited_s}


class ServingPolicyWorker(DRL_role):
    """Acts for the actors that it serves, by the policy of its run folder, until all have left."""

    def GMI_run(self, **params: Any) -> dict[str, Any]:
        """Answer. Returns how many requests and batches there were.

        Args:
            **params: Of serving; they concern the actors.
        """
        mgr, config = self.mgr, self.mgr.configure()
        spec = _receive_task(mgr)
        agent = load_agent(RunFolder(mgr.run_folder), spec, config, mgr.device)
        assert isinstance(agent, Agent)  # as its template has checked
        with closing(open_server(mgr, stream_sizes(mgr, config, spec), lambda: 0, LOADING_S)) as server:
            return serve(server, FixedPolicy(agent), Forward(mgr.device))


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
