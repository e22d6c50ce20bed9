"""Which memory of the host is registered with CUDA, with a list in the driver's place."""

import os
import warnings

import pytest

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.memory import cuda_context, pinned
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import GmiWarning
from tests.comm.channels.traced_rollouts import sizes_of
from tests.comm.files_as_gpus import Files

NOW_S = 0.01
PAGE = 4096


class Cuda:
    """What is registered, address by address, and what the driver answers."""

    def __init__(self, monkeypatch):
        self.registered, self.code = {}, 0
        for module in (cuda_context, pinned):
            monkeypatch.setattr(module, "driver", lambda: self)
        monkeypatch.setattr(pinned, "make_current", lambda: None)

    def cuMemHostRegister_v2(self, address, size, flags):  # noqa: N802
        assert address.value not in self.registered and flags == 0
        if self.code == 0:
            self.registered[address.value] = size.value
        return self.code

    def cuMemHostUnregister(self, address):  # noqa: N802
        del self.registered[address.value]

    def cuGetErrorName(self, code, name):  # noqa: N802
        name._obj.value = b"CUDA_ERROR_NOT_SUPPORTED"


@pytest.fixture
def cuda(monkeypatch):
    return Cuda(monkeypatch)


@pytest.fixture
def run(cuda):
    opened = []

    def start(**sizes):
        mailboxes, memory = create_mailboxes(range(4)), create_memory()
        sizes = sizes_of(**sizes)
        trainers = [join_as_trainer(memory, mailboxes, gmi, sizes, NOW_S) for gmi in sizes.trainers]
        opened.append((trainers, mailboxes, memory))
        return trainers, lambda device: join_as_agent(memory, mailboxes, sizes.agents[0], sizes, NOW_S, device)

    yield start
    for trainers, mailboxes, memory in opened:
        for trainer in trainers:
            trainer.close()
        mailboxes.close()
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


def test_where_cuda_refuses_an_agent_goes_on_and_warns_once(run, cuda):
    cuda.code = 801
    _, open_agent = run(agents=(2,), trainers=(0, 1))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        open_agent("cuda").close()
    (warning,) = told
    assert warning.category is GmiWarning
    assert "does not register memory of this host (CUDA_ERROR_NOT_SUPPORTED)" in str(warning.message)
