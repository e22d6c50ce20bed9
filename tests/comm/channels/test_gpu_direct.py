"""Batches in the memory of a GPU that agents have mapped, with files in its place."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError
from tests.comm.channels.traced_rollouts import FORM, parameters, rollouts_in, send, sizes_of, write
from tests.comm.files_as_gpus import Files

NOW_S, ANSWER_S = 0.01, 60.0


@pytest.fixture
def files(tmp_path, monkeypatch):
    return Files(tmp_path, monkeypatch)


@pytest.fixture
def run(files):
    opened = []

    def start(direct, **sizes):
        mailboxes, memory = create_mailboxes(range(4)), create_memory()
        sizes = sizes_of(direct=direct, **sizes)
        trainers = [join_as_trainer(memory, mailboxes, gmi, sizes, NOW_S) for gmi in sizes.trainers]
        agents = {gmi: join_as_agent(memory, mailboxes, gmi, sizes, NOW_S) for gmi in sizes.agents}
        trainers[0].parameters.publish(0, parameters())
        opened.append((mailboxes, memory, *agents.values(), *trainers))
        return trainers, agents

    yield start
    for mailboxes, memory, *ends in opened:
        for end in ends:
            end.close()
        mailboxes.close()
        os.close(memory)


@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_a_direct_agent_writes_where_it_is_learnt_from_and_others_are_copied_there(run, mode):
    (trainer,), agents = run(((1,),), rollouts=3, agents=(1, 2), mode=mode, max_lag=1)
    copied, copy = [], trainer._batches._copy
    trainer._batches._copy = lambda number, span: (copied.append(span.stop - span.start), copy(number, span))
    for update in range(3):  # over the places more than once
        for gmi in (1, 2, 1):
            send(agents[gmi].lease(), gmi)
        batch = trainer.take()
        assert rollouts_in(batch) == [(1, 2 * update), (2, update), (1, 2 * update + 1)]
        trainer.parameters.publish(update + 1, parameters(update + 1))
        trainer.give_back()
    assert sum(copied) == 3 * FORM.nbytes, "of the one that is not direct"
    in_host_memory = trainer._memory.batch(0, 0)[: 3 * FORM.kinds[0].nbytes].view(torch.float32).view(3, -1)
    assert in_host_memory.any(1).tolist() == [False, True, False]


def test_an_agent_is_direct_to_the_trainer_of_its_gpu_alone(run, files):
    trainers, agents = run(((1,), ()), agents=(1,), trainers=(0, 2))
    for _ in trainers:
        send(agents[1].lease(), 1)
    assert [rollouts_in(trainer.take()) for trainer in trainers] == [[(1, 0)], [(1, 1)]]
    assert [trainer._memory.batch(rank, 0).any().item() for rank, trainer in enumerate(trainers)] == [False, True]
    assert files.unmapped == 0


@pytest.fixture
def pair(files):
    """A trainer and its direct agent, which are for their test to close."""
    mailboxes, memory = create_mailboxes(range(2)), create_memory()
    sizes = sizes_of(direct=((1,),))
    yield [end(memory, mailboxes, gmi, sizes, NOW_S) for end, gmi in ((join_as_trainer, 0), (join_as_agent, 1))]
    mailboxes.close()
    os.close(memory)


def test_a_trainer_stays_until_its_agents_say_that_they_have_unmapped_its_memory(pair, files, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.channels.trainer_end.FAREWELL_S", ANSWER_S)
    monkeypatch.setattr("gmi_drl.comm.memory.notify._NAP_S", ANSWER_S)  # so it is woken
    trainer, agent = pair
    closing = threading.Thread(target=trainer.close, daemon=True)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive() and files.unmapped == 0
    agent.close()
    assert files.unmapped == 1
    closing.join(ANSWER_S)
    assert not closing.is_alive()


def test_closing_trainer_gives_up_after_the_farewell_timeout(pair, monkeypatch):
    monkeypatch.setattr("gmi_drl.comm.channels.trainer_end.FAREWELL_S", 0.01)
    trainer, agent = pair
    trainer.close()
    agent.close()


def test_kernels_have_read_a_place_before_it_is_free(run, monkeypatch):
    (trainer,), agents = run(((1,),))
    seen = []
    monkeypatch.setattr(
        "gmi_drl.comm.channels.device_batches.await_stream", lambda device: seen.append(agents[1].lease_now())
    )
    send(agents[1].lease(), 1)
    trainer.take()
    while agents[1].lease_now():
        pass  # all others
    trainer.parameters.publish(1, parameters(1))
    trainer.give_back()
    assert seen == [None], "none was free yet"
    assert agents[1].lease_now()


def die(agent):
    """Let its process be one that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    agent._notifier._memory.set_pid(agent._notifier.own, process.pid)


def test_a_place_that_a_direct_agent_left_unfinished_stays_unused_and_ends_the_training_when_it_is_needed(run):
    (trainer,), agents = run(((1,),), rollouts=2, agents=(1, 2, 3), max_lag=1)
    for gmi in (1, 2, 1):
        send(agents[gmi].lease(), gmi)
    spoilt = agents[1].lease()
    write(spoilt, 1, "obs", 0)
    die(agents[1])
    trainer._notifier.poll_ended((1,))
    batch = trainer.take()
    assert rollouts_in(batch) == [(1, 0), (2, 0)], "what was sent whole counts"
    trainer.parameters.publish(1, parameters(1))
    trainer.give_back()
    places = []
    while lease := agents[2].lease_now():
        places.append(lease.place)
    assert spoilt.number == 3 and places == [4, 5], "neither again nor a batch later"
    with pytest.raises(PeerDiedError, match="GMI 1 ended while it wrote into the GPU memory of GMI 0"):
        trainer.take()
    trainer._reclaim(1, processes=1)  # once more, as where another process comes as this agent
    trainer.end_experience()
    assert trainer.dropped == {"GMI 1 ended": 1, "experience ended": 3}


def test_one_that_an_agent_of_another_gpu_left_is_leased_again(run):
    (trainer,), agents = run(((1,),), rollouts=2, agents=(1, 2), max_lag=0)
    write(agents[2].lease(), 2, "obs", 0)
    die(agents[2])
    send(agents[1].lease(), 1)
    with pytest.raises(PeerSilentError):
        trainer.take()
    send(agents[1].lease(), 1)
    assert rollouts_in(trainer.take()) == [(1, 1), (1, 0)]


def test_a_trainer_that_shares_nothing_is_named(files):
    mailboxes, memory = create_mailboxes(range(3)), create_memory()
    sizes = sizes_of(agents=(1,), trainers=(0, 2), direct=((), (1,)))
    trainer = join_as_trainer(memory, mailboxes, 0, sizes, NOW_S)
    with pytest.raises(PeerSilentError, match=r"GMI 2 is not here yet and has not shared its GPU memory"):
        join_as_agent(memory, mailboxes, 1, sizes, NOW_S)
    trainer.close()
    mailboxes.close()
    os.close(memory)


@pytest.mark.parametrize("direct", [((1,), (1,)), ((3,),)], ids=["too many trainers", "no agent"])
def test_sizes_whose_direct_agents_are_none_are_refused(direct):
    with pytest.raises(UsageError, match="are not agents of"):
        sizes_of(direct=direct)
