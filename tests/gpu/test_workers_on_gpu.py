import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.comm.streams import StreamSizes
from gmi_drl.config.learners import PPOConfig
from gmi_drl.roles.workers.forward import ACT, VALUE, Forward, answer_kinds, request_kinds
from gmi_drl.roles.workers.gpu_forward import answering
from gmi_drl.workload import TASK_SPECS
from tests.comm.streams.stream_ends import ends

pytestmark = pytest.mark.gpu

SPEC, N = TASK_SPECS["ant"], 3


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_graphs_of_padded_batches_answer_as_an_agent_on_cores_does(memory):
    config = PPOConfig(hidden=(8,), memory=memory, memory_size=4)
    here, there = (make_agent(SPEC, config, torch.device(one), seed=1) for one in ("cpu", "cuda"))
    size = here.policy.state_size
    sizes = StreamSizes(request_kinds(SPEC, N, size), answer_kinds(SPEC, N, size), N, (0,), ((1, 2, 3),))
    with ends(sizes) as made:
        server = made.server()
        with answering([there], server, torch.device("cuda")) as forward:
            for number in range(6):
                for request in server.requests:
                    for tensor in request.values():
                        tensor.normal_()
                what, slots = (ACT, VALUE)[number % 2], range(1 + number // 2)
                asked, given = ([each[slot] for slot in slots] for each in (server.requests, server.answers))
                Forward()(here, what, asked, given)
                wanted = [{name: tensor.clone() for name, tensor in one.items()} for one in given]
                for one in given:
                    for name, tensor in one.items():
                        if (name == "value") == (what == VALUE):
                            tensor.fill_(7.0)
                forward(there, what, asked, given)
                for found, right in zip(given, wanted, strict=True):
                    for name in found:
                        torch.testing.assert_close(found[name], right[name], rtol=1e-3, atol=1e-4)
        server.close()
