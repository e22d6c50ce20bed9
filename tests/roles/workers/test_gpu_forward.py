"""Batches of a GPU, on cores: padded to a few sizes, they answer as batches of their own size do."""

import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.comm.streams import StreamSizes
from gmi_drl.config.learners import PPOConfig
from gmi_drl.roles.workers import gpu_forward
from gmi_drl.roles.workers.forward import ACT, VALUE, Forward, answer_kinds, request_kinds
from gmi_drl.roles.workers.gpu_forward import GpuForward, answering
from gmi_drl.workload import TASK_SPECS
from tests.comm.streams.stream_ends import ends

CPU, N, CLIENTS = torch.device("cpu"), 3, (1, 2, 3, 4, 5)
SPEC = TASK_SPECS["ant"]


def agents_of(memory):
    config = PPOConfig(hidden=(8,), memory=memory, memory_size=4)
    return [make_agent(SPEC, config, CPU, seed=seed) for seed in (1, 2)]


def sizes_of(agent):
    size = agent.policy.state_size
    return StreamSizes(request_kinds(SPEC, N, size), answer_kinds(SPEC, N, size), N, (0,), (CLIENTS,))


def answers_of(server, forward, agent, what, slots):
    """What requests of chance are answered, by slot and name; other slots have ones."""
    for answer in server.answers:
        for tensor in answer.values():
            tensor.fill_(1.0)
    forward(agent, what, [server.requests[slot] for slot in slots], [server.answers[slot] for slot in slots])
    return [{name: tensor.clone() for name, tensor in answer.items()} for answer in server.answers]


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_requests_of_any_number_are_answered_as_by_batches_of_their_size(memory):
    agents = agents_of(memory)
    with ends(sizes_of(agents[0])) as made:
        server = made.server()
        padded = GpuForward(agents, server, CPU)
        for number in range(12):
            torch.manual_seed(number)
            for request in server.requests:
                for tensor in request.values():
                    tensor.normal_()
            before = [{name: tensor.clone() for name, tensor in one.items()} for one in server.requests]
            agent, what = agents[number % 2], (ACT, VALUE)[number // 2 % 2]
            slots = torch.randperm(len(CLIENTS))[: 1 + number % len(CLIENTS)].tolist()
            wanted = answers_of(server, Forward(), agent, what, slots)
            found = answers_of(server, padded, agent, what, slots)
            for one, other in zip(found, wanted, strict=True):
                for name in one:
                    torch.testing.assert_close(one[name], other[name], rtol=1e-5, atol=1e-6)
            for request, kept in zip(server.requests, before, strict=True):
                assert all(torch.equal(request[name], kept[name]) for name in kept)
        server.close()


def test_batches_have_sizes_of_powers_of_two_up_to_all_slots():
    agents = agents_of("none")
    with ends(sizes_of(agents[0])) as made:
        server = made.server()
        assert list(GpuForward(agents, server, CPU)._batches) == [1, 2, 4, 8]
        server.close()


def test_on_a_gpu_the_slots_of_the_server_are_registered_as_long_as_it_answers(monkeypatch):
    log, agents = [], agents_of("none")
    monkeypatch.setattr(gpu_forward, "register", lambda memory: log.append(("register", memory.data_ptr())) or True)
    monkeypatch.setattr(gpu_forward, "unregister", lambda memory: log.append(("unregister", memory.data_ptr())))
    monkeypatch.setattr(gpu_forward, "GpuForward", lambda agents, server, device, **_: log.append(str(device)))
    with ends(sizes_of(agents[0])) as made:
        server = made.server()
        with pytest.raises(KeyError), answering(agents, server, torch.device("cuda:0")):
            raise KeyError
        at = server.slots.data_ptr()
        assert log == [("register", at), "cuda:0", ("unregister", at)]
        assert at == server.requests[0]["obs"].data_ptr() and at % 4096 == 0
        last = server.answers[-1]["value"]
        assert at + server.slots.numel() >= last.data_ptr() + last.numel() * 4
        with answering(agents, server, CPU) as forward:
            assert isinstance(forward, Forward) and len(log) == 3
        server.close()
