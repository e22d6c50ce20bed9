"""The policy worker: it answers the requests of many actors in batches (SRL, section 2.2.1)."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Protocol

from gmi_drl.algo.agent import Agent
from gmi_drl.comm.streams import StreamServer
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.workers.forward import ACT, QUESTIONS, VALUE, Answering
from gmi_drl.roles.workers.gpu_forward import answering
from gmi_drl.roles.workers.newest_policy import NewestPolicy, PolicyCopy
from gmi_drl.roles.workers.parameter_source import parameter_source
from gmi_drl.roles.workers.stream_setup import connect_clients, open_server, stream_sizes


class PolicyWorker(DRL_role):
    """Acts for the actors that it serves, by the newest version of the policy, until all have left."""

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Answer. Returns how many requests and batches there were.

        Args:
            resume: Not needed: the trainers publish the version that they go on from.
        """
        mgr, config, device = self.mgr, self.mgr.configure(), self.mgr.device
        (far, changes), source = connect_clients(mgr), parameter_source(mgr)  # at once: simulators may load for long
        info = source.receive()
        spec = info.spec
        copies = PolicyCopy(spec, config, device), PolicyCopy(spec, config, device)
        with (
            closing(source.open(config, info, copies[0].tensors)) as reader,
            closing(
                open_server(mgr, stream_sizes(mgr, config, spec), lambda: reader.keepalives, far=far, changes=changes)
            ) as server,
            answering([copy.agent for copy in copies], server, device, cuda_graphs=config.cuda_graphs) as forward,
            closing(NewestPolicy(copies, reader)) as policy,
        ):
            counted = serve(server, policy, forward)
            reader.finish()  # not after an error, which would be told late
            return counted


class Versions(Protocol):
    """Gives agents by version: `NewestPolicy`."""

    @property
    def wait_s(self) -> float:
        """Seconds that requests have waited so far for a version."""

    def at_least(self, version: int) -> tuple[Agent, int] | None:
        """See `NewestPolicy.at_least`."""


def serve(server: StreamServer, policy: Versions, forward: Answering) -> dict[str, Any]:
    """Answer batch after batch until all clients have left. Returns how many requests and batches there were."""
    requests = batches = 0
    while batch := server.next_batch():
        questions = _by_question(server, batch)
        if unknown := sorted(questions.keys() - QUESTIONS):
            why = f"it asked question {unknown[0]}, and policy workers answer {ACT} and {VALUE}"
            server.refuse(questions[unknown[0]], why)
            continue
        if (found := policy.at_least(server.version_wanted(batch))) is None:
            server.refuse_latest(batch)
            continue
        agent, version = found
        for what, slots in questions.items():
            forward(agent, what, [server.requests[slot] for slot in slots], [server.answers[slot] for slot in slots])
        server.answer(version, policy.wait_s)
        requests, batches = requests + len(batch), batches + 1
    return {"requests": requests, "batches": batches}


def _by_question(server: StreamServer, batch: Sequence[int]) -> dict[int, list[int]]:
    """The slots of a batch by what they ask."""
    slots: dict[int, list[int]] = {}
    for slot in batch:
        slots.setdefault(server.what(slot), []).append(slot)
    return slots
