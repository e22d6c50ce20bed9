"""Which memory of the host is registered with CUDA, with a list in CUDA's place."""

import os

import pytest
import torch

from gmi_drl.comm.channels import agent_end, create_memory, trainer_end
from gmi_drl.device import upload
from gmi_drl.errors import MachineError
from gmi_drl.memory.post import create_post
from tests.comm.channels.rollouts_told import sizes_of
from tests.comm.files_as_gpus import Files

NOW_S = 0.01
PAGE = 4096


class Cuda:
    """What is registered, address by address, and what CUDA answers."""

    def __init__(self, monkeypatch):
        self.registered, self.code = {}, 0
        monkeypatch.setattr(torch.cuda, "cudart", lambda: self)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def cudaHostRegister(self, address, size, flags):  # noqa: N802
        assert address not in self.registered and flags == 0
        self.registered[address] = size
        return self.code

    def cudaHostUnregister(self, address):  # noqa: N802
        del self.registered[address]


@pytest.fixture
def cuda(monkeypatch):
    return Cuda(monkeypatch)


@pytest.fixture
def run(cuda):
    opened = []

    def start(**sizes):
        post, memory = create_post(4), create_memory()
        sizes = sizes_of(**sizes)
        trainers = [trainer_end(memory, post, gmi, sizes, NOW_S) for gmi in sizes.trainers]
        opened.append((trainers, post, memory))
        return trainers, lambda device: agent_end(memory, post, sizes.agents[0], sizes, NOW_S, device)

    yield start
    for trainers, post, memory in opened:
        for trainer in trainers:
            trainer.close()
        post.close()
        os.close(memory)


def test_an_agent_on_a_gpu_registers_all_places_in_whole_pages_until_it_is_closed(run, cuda):
    _, open_agent = run(agents=(2,), trainers=(0, 1), max_lag=2)
    agent = open_agent("cuda")
    memory = agent._memory
    assert cuda.registered == {memory.batch(rank, 0).data_ptr(): 3 * memory.batch_stride for rank in (0, 1)}
    assert all(number % PAGE == 0 for pages in cuda.registered.items() for number in pages)
    assert memory.batch_stride >= memory.sizes.batch_bytes
    agent.close()
    assert not cuda.registered


def test_one_on_cores_registers_nothing(run, cuda):
    _, open_agent = run()
    open_agent("cpu").close()
    assert not cuda.registered


def test_a_direct_agent_registers_what_it_writes_on_the_host_alone(run, cuda, tmp_path, monkeypatch):
    Files(tmp_path, monkeypatch)
    trainers, open_agent = run(agents=(1,), trainers=(0, 2), direct=((1,), ()))
    agent = open_agent("cuda")
    assert list(cuda.registered) == [trainers[1]._memory.batch(1, 0).data_ptr() - distance(trainers[1], agent)]
    agent.close()


def distance(one, other):
    """Between two maps of one memory in this process."""
    return one._memory.batch(0, 0).data_ptr() - other._memory.batch(0, 0).data_ptr()


def test_a_refusal_names_the_limit(cuda):
    cuda.code = 2
    with pytest.raises(MachineError, match=r"cannot register 4.0 KiB .*error 2.*ulimit -l.* take less"):
        upload.register(torch.zeros(PAGE, dtype=torch.uint8), "take less")
