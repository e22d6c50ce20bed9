"""The forward pass of a policy worker on a GPU: batches of a few sizes, each a CUDA graph, and copies by DMA."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from gmi_drl.algo.agent import Agent
from gmi_drl.algo.networks.memory import Past
from gmi_drl.comm.memory.pinned import await_stream, register, unregister
from gmi_drl.comm.streams import StreamServer
from gmi_drl.cuda_graph import WARM_UP_CALLS, Captured
from gmi_drl.roles.workers.forward import ACT, VALUE, Answering, Forward, Tensors


class GpuForward:
    """Answers requests together, as `Forward` does.

    Each request is copied from its slot to its rows on the GPU. A batch is padded to the next power of two requests:
    for each of these sizes, agents and questions a graph is captured here, before requests come. The rows behind the
    requests have what was there before, and what comes out of them is dropped.

    Args:
        agents: All that may answer; their tensors stay where they are.
        server: Of the requests.
        device: Of the agents.
        cuda_graphs: False to call the policy without graphs.
    """

    def __init__(
        self, agents: Sequence[Agent], server: StreamServer, device: torch.device, *, cuda_graphs: bool = True
    ) -> None:
        most = server.most
        sizes = [2**power for power in range((most - 1).bit_length() + 1)]
        self._batches = {size: Batch(size, server.requests[0], server.answers[0], device) for size in sizes}
        self._calls = {
            (id(agent), what, size): Captured(batch.answering(agent, what), device, is_on=cuda_graphs)
            for agent in agents
            for what in (ACT, VALUE)
            for size, batch in self._batches.items()
        }
        if device.type == "cuda" and cuda_graphs:
            for call in self._calls.values():
                for _ in range(WARM_UP_CALLS + 1):
                    call()

    def __call__(self, agent: Agent, what: int, requests: Sequence[Tensors], answers: Sequence[Tensors]) -> None:
        """See `Forward`."""
        size = 1 << (len(requests) - 1).bit_length()
        batch = self._batches[size]
        batch.take(what, requests)
        self._calls[id(agent), what, size]()
        batch.give(what, answers)


class Batch:
    """The tensors of so many requests and their answers on a device, and of the answers on the host, pinned.

    Args:
        size: Requests.
        request: The tensors of one, by name, `[N, ...]`.
        answer: Those of its answer.
        device: Of the batch.
    """

    def __init__(self, size: int, request: Tensors, answer: Tensors, device: torch.device) -> None:
        self._asked, self._given = _together(size, request, device), _together(size, answer, device)
        self._device = device
        self._came = {
            name: torch.empty_like(tensor, device="cpu", pin_memory=device.type == "cuda")
            for name, tensor in self._given.items()
        }
        self._rows = {name: tensor.chunk(size) for name, tensor in self._asked.items()}
        self._came_rows = {name: tensor.chunk(size) for name, tensor in self._came.items()}

    def take(self, what: int, requests: Sequence[Tensors]) -> None:
        """Copy requests to the first rows. The host does not wait, if their memory is registered with CUDA."""
        names = [name for name in self._rows if what == ACT or name != "noise"]
        for number, request in enumerate(requests):
            for name in names:
                self._rows[name][number].copy_(request[name], non_blocking=True)

    def answering(self, agent: Agent, what: int) -> "Answer":
        """What answers all rows by an agent."""
        return Answer(agent, what, self._asked, self._given)

    def give(self, what: int, answers: Sequence[Tensors]) -> None:
        """Wait for the answers, and write them into their slots."""
        names = ("value",) if what == VALUE else [name for name in self._given if name != "value"]
        for name in names:
            self._came[name].copy_(self._given[name], non_blocking=True)
        await_stream(self._device)
        for name in names:
            for answer, rows in zip(answers, self._came_rows[name], strict=False):
                answer[name].copy_(rows)


class Answer:
    """Answers all rows of a batch, on the device alone."""

    def __init__(self, agent: Agent, what: int, asked: Tensors, given: Tensors) -> None:
        self._agent, self._what, self._asked, self._given = agent, what, asked, given

    @torch.no_grad()
    def __call__(self) -> None:
        """Answer. What a request asks by its state stays in the request."""
        agent, asked, given, state = self._agent, self._asked, self._given, self._asked.get("state")
        if self._what == VALUE:
            given["value"].copy_(agent.value(asked["obs"], None if state is None else Past(state)))
            return
        if state is not None:
            given["state"].copy_(state)
        action, params, _ = agent.sample(asked["obs"], asked["noise"], given.get("state"))
        given["action"].copy_(action)
        given["log_prob"].copy_(agent.policy.log_prob(action, params))


@contextmanager
def answering(
    agents: Sequence[Agent], server: StreamServer, device: torch.device, *, cuda_graphs: bool = True
) -> Iterator[Answering]:
    """What answers requests by these agents; on a GPU with the slots of the server registered for its copies.

    Args:
        agents: All that may answer.
        server: Of the requests.
        device: Of the agents.
        cuda_graphs: Of `GpuForward`.
    """
    if device.type != "cuda":
        yield Forward()
        return
    is_registered = register(server.slots)
    try:
        yield GpuForward(agents, server, device, cuda_graphs=cuda_graphs)
    finally:
        if is_registered:
            unregister(server.slots)


def _together(size: int, one: Tensors, device: torch.device) -> Tensors:
    return {
        name: torch.zeros(size * len(tensor), *tensor.shape[1:], dtype=tensor.dtype, device=device)
        for name, tensor in one.items()
    }
