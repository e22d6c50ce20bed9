"""Both ends of channels in this process, which are quick; `test_channel_faults.py` has processes that die."""

import doctest
import os
import subprocess
import sys
from itertools import chain

import pytest
import torch
from conftest import open_descriptors

import gmi_drl.comm.channels as channels
from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.channels.records import Record
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError, UsageError
from tests.comm.channels.traced_rollouts import FORM, RECORDS, parameters, rollouts_in, send, sizes_of, write

NOW_S = 0.01  # for what never comes


class Run:
    """The ends of all GMIs of some sizes."""

    def __init__(self, sizes, hang_s=NOW_S):
        self.mailboxes, self.memory = create_mailboxes(range(1 + max(sizes.agents + sizes.trainers))), create_memory()
        self.trainers = [join_as_trainer(self.memory, self.mailboxes, gmi, sizes, hang_s) for gmi in sizes.trainers]
        self.agents = {gmi: join_as_agent(self.memory, self.mailboxes, gmi, sizes, hang_s) for gmi in sizes.agents}
        self.trainer, self.sizes = self.trainers[0], sizes
        self.trainer.parameters.publish(0, parameters())

    def update(self, version):
        """What a trainer does with the next batch; who was in it."""
        came = [rollouts_in(trainer.take()) for trainer in self.trainers]
        self.trainer.parameters.publish(version, parameters(version))
        for trainer in self.trainers:
            trainer.give_back()
        return came if len(came) > 1 else came[0]

    def end(self, gmi):
        """Let the process of a GMI be one that is gone."""
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        MailboxMemory(self.mailboxes.memory).set_pid(gmi, process.pid)

    def close(self):
        for end in (*self.trainers, *self.agents.values()):
            end.close()
        os.close(self.memory)
        self.mailboxes.close()


@pytest.fixture
def run():
    runs = []

    def start(hang_s=NOW_S, **sizes):
        runs.append(Run(sizes_of(**sizes), hang_s))
        return runs[-1]

    yield start
    for made in runs:
        made.close()


def test_the_lag_is_as_the_example_says():
    assert doctest.testmod(channels) == (0, 9)


@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_a_batch_has_the_rollouts_in_order_and_its_memory_is_theirs(run, mode):
    run = run(rollouts=2, agents=(1, 2), mode=mode, max_lag=1)
    for gmi in (2, 1, 1, 2):
        send(run.agents[gmi].lease(), gmi)
    batch = run.trainer.take()
    assert (batch.number, batch.agents, rollouts_in(batch)) == (0, (2, 1), [(2, 0), (1, 0)])
    assert batch.memory.numel() == FORM.offsets(2)[-1]
    start = FORM.offsets(2)[1]
    actions = batch.memory[start : start + 2 * FORM.kinds[1].nbytes].view(torch.float32)
    assert actions.data_ptr() == batch.views["action"].data_ptr() and batch.views["action"].shape == (2, 3, 2, 2)
    run.trainer.parameters.publish(1, parameters(1))
    run.trainer.give_back()
    assert run.update(2) == [(1, 1), (2, 1)]
    assert not run.trainer.dropped


@pytest.mark.parametrize(
    ("mode", "transfer_bytes", "told"), [("MCC", 2**20, 1), ("MCC", 80, 2), ("MCC", 48, 3), ("UCC", 2**20, 3)]
)
def test_records_tell_of_as_many_steps_as_make_a_transfer(run, mode, transfer_bytes, told):
    run = run(mode=mode, transfer_bytes=transfer_bytes)
    place, ring = run.agents[1].lease(), run.agents[1]._rings[0]
    for step in range(FORM.horizon):  # of 40 bytes each
        write(place, 1, "obs", step)
    assert ring._count == told
    for step in range(FORM.horizon):  # of 8 bytes each
        write(place, 1, "reward", step)
    assert ring._count == told + {"MCC": 1, "UCC": 3}[mode]


def test_what_is_written_out_of_turn_is_refused(run):
    place = run().agents[1].lease()
    write(place, 1, "obs", 0)
    for kind, step in (("obs", 0), ("obs", 2), ("action", 1), ("facts", 1)):
        with pytest.raises(UsageError, match=f"step {step} of '{kind}' was written when step"):
            place.wrote(kind, step)
    with pytest.raises(UsageError, match=r"obs has 1 of 3, action has 0 of 3.*facts has 0 of 1 steps"):
        place.commit()
    for kind in place.views:
        place.wrote_whole(kind)
    place.commit()
    with pytest.raises(UsageError, match="step 3 of 'obs'"):
        place.wrote("obs", 3)


def test_one_place_at_a_time(run):
    agent = run(rollouts=2).agents[1]
    agent.lease()
    with pytest.raises(UsageError, match="the last place was not committed"):
        agent.lease()


def test_rollouts_go_to_the_trainer_with_the_least_workload(run):
    run = run(rollouts=2, agents=(2, 3), trainers=(0, 1), max_lag=0)
    for gmi in (2, 3, 2, 3):
        send(run.agents[gmi].lease(), gmi)
    with pytest.raises(PeerSilentError, match=r"GMI 0 \(process \d+\), GMI 1 .* has not made room"):
        run.agents[2].lease()
    assert run.agents[2].wait_s > 0
    assert run.update(1) == [[(2, 0), (2, 1)], [(3, 0), (3, 1)]]


def test_only_as_many_places_as_the_lag_allows(run):
    run = run(rollouts=2, max_lag=1)
    for _ in range(4):
        send(run.agents[1].lease(), 1)
    with pytest.raises(PeerSilentError):
        run.agents[1].lease()
    run.update(1)
    for _ in range(2):
        send(run.agents[1].lease(), 1)
    with pytest.raises(PeerSilentError):
        run.agents[1].lease()


def test_a_batch_comes_back_after_its_version_and_not_before(run):
    run = run(agents=(2,), trainers=(0, 1), max_lag=0)
    for _ in range(2):
        send(run.agents[2].lease(), 2)
    for trainer in run.trainers:
        trainer.take()
        with pytest.raises(UsageError, match="batch 0 was not given back"):
            trainer.take()
    with pytest.raises(UsageError, match="batch 0 was given back after 1 versions, not 2: publish one"):
        run.trainers[0].give_back()
    with pytest.raises(PeerSilentError, match="has not published parameters"):
        run.trainers[1].give_back()
    run.trainer.parameters.publish(1, parameters(1))
    for trainer in run.trainers:
        trainer.give_back()
        with pytest.raises(UsageError, match="there is no batch to give back"):
            trainer.give_back()


def test_one_version_for_each_update(run):
    run = run()
    send(run.agents[1].lease(), 1)
    run.trainer.take()
    for version in (1, 2):
        run.trainer.parameters.publish(version, parameters(version))
    with pytest.raises(UsageError, match="batch 0 was given back after 3 versions, not 2: publish one before all"):
        run.trainer.give_back()


@pytest.mark.parametrize("mode", ["MCC", "UCC"])
def test_a_full_queue_holds_its_agent_between_rollouts_and_loses_nothing(run, mode):
    run = run(rollouts=4, agents=(1, 2, 3, 4), max_lag=0, mode=mode)
    for _ in range(2):  # twice its share
        send(run.agents[1].lease(), 1)
    with pytest.raises(PeerSilentError, match=r"GMI 0 .* has not made room for experience"):
        run.agents[1].lease()
    with pytest.raises(PeerSilentError, match=r"GMI 1 .* has not sent experience"):
        run.trainer.take()
    send(run.agents[1].lease(), 1)
    assert run.agents[1]._rings[0]._count == 3 * RECORDS[mode]


def test_who_waits_is_told_who_is_late(run):
    run = run(rollouts=2, agents=(1, 2))
    send(run.agents[1].lease(), 1)
    run.agents[2].lease()
    with pytest.raises(PeerSilentError, match=r"^GMI 2 \(process \d+\) lives but has not sent experience for 0.01 s"):
        run.trainer.take()
    assert run.trainer.wait_s > 0


def test_an_end_drops_what_was_not_trained_on(run):
    run = run(rollouts=2, agents=(1, 2), max_lag=1)
    for _ in range(2):
        send(run.agents[1].lease(), 1)
    run.trainer.take()
    place = run.agents[1].lease()
    for kind, step in (("obs", 0), ("obs", 1)):
        write(place, 1, kind, step)
    send(run.agents[2].lease(), 2)
    for _ in range(2):
        run.trainer.end_experience()
    assert run.trainer.dropped == {"experience ended": 2}
    assert run.trainer.dropped_steps == {"experience ended": FORM.horizon}
    for kind in place.views:
        place.wrote_whole(kind)
    place.commit()
    assert [agent.lease() for agent in run.agents.values()] == [None, None]


def test_a_trainer_may_be_gone_after_the_end(run):
    run = run()
    run.trainer.end_experience()
    run.end(0)
    assert run.agents[1].lease() is None


def test_the_end_tells_who_had_ended_before(run):
    run = run(rollouts=2, agents=(1, 2))
    for agent in run.agents.values():
        agent.lease()
    run.end(1)
    run.trainer.end_experience()
    assert run.trainer.dropped == {"GMI 1 ended": 1, "experience ended": 1}


def test_nobody_waits_for_room_or_experience_after_the_end(run):
    run = run(rollouts=4, agents=(2, 3, 4, 5), trainers=(0, 1), max_lag=0)
    ring = run.agents[2]._rings[0]
    place = run.agents[2].lease()
    run.trainers[1].end_experience()
    while ring.has_room():
        ring.reserve()
    send(place, 2)
    with pytest.raises(GmiError, match="that GMI 1 waits for was ended"):
        run.trainers[1].take()


def records_of(sizes, lease, rollout):
    """All that tells of a rollout: to which trainer, and what."""
    every = ((kind, sizes.steps_of(one), sizes.steps_of_transfer(one)) for kind, one in enumerate(sizes.form.kinds))
    return [
        (lease.trainer, Record(lease.place, rollout, kind, first, min(first + of_one, steps)))
        for kind, steps, of_one in every
        for first in range(0, steps, of_one)
    ]


def test_room_is_kept_for_rollouts_that_are_leased_and_not_sent_yet(run):
    """As where pieces of a far agent are under way: room that a trainer makes in mid-rollout is not the next one's."""
    run = run(agents=(1, 2, 3), max_lag=5, mode="UCC")
    agent = run.agents[1]
    rollouts = [records_of(run.sizes, agent.lease_now(), number) for number in range(2)]
    for told in rollouts[0] + rollouts[1][:5]:
        agent.send(*told)
    run.trainer._process_events()
    while lease := agent.lease_now():
        rollouts.append(records_of(run.sizes, lease, len(rollouts)))
    assert len(rollouts) == 5 < run.sizes.places, "the queue holds the rest of the second, and three"
    for told in [*rollouts[1][5:], *chain(*rollouts[2:])]:
        agent.send(*told)
    assert agent.lease_now() is None, "nothing was taken since"
    run.trainer._process_events()
    assert agent.lease_now() is not None


def test_a_trainer_that_is_gone_is_named(run):
    run = run(agents=(2,), trainers=(0, 1), max_lag=0)
    run.end(1)
    with pytest.raises(PeerDiedError, match=r"GMI 1 \(process \d+\) ended and has not trained on what is sent"):
        run.agents[2].lease()


def test_what_an_agent_has_sent_whole_counts_after_its_end_and_the_rest_is_leased_again(run):
    run = run(rollouts=2, agents=(1, 2), max_lag=1)
    send(run.agents[1].lease(), 1)
    place = run.agents[1].lease()
    for step in range(2):
        write(place, 1, "obs", step)
    send(run.agents[2].lease(), 2)
    run.end(1)
    with pytest.raises(PeerSilentError):
        run.trainer.take()
    assert run.trainer.dropped == {"GMI 1 ended": 1} and run.trainer.dropped_steps == {"GMI 1 ended": 0}
    again = run.agents[2].lease()
    assert again.number == 1
    send(again, 2)
    assert run.update(1) == [(1, 0), (2, 1)]
    send(run.agents[2].lease(), 2)
    assert run.update(2) == [(2, 0), (2, 2)]


def test_a_trainer_without_agents_says_so(run):
    run = run(rollouts=2, agents=(1, 2))
    send(run.agents[2].lease(), 2)
    for gmi in (1, 2):
        run.end(gmi)
    with pytest.raises(PeerDiedError, match=r"all agents \(GMIs 1, 2\) ended while GMI 0 waited"):
        run.trainer.take()


@pytest.mark.parametrize(
    "spoil",
    [(0, 0, 0, 1, 2), (0, 1, 0, 0, 1), (1, 0, 0, 0, 1), (2, 0, 0, 0, 1), (-2, 0, 0, 0, 1), (0, 0, 0, 0, 4)],
)
def test_what_does_not_follow_is_an_error(run, spoil):
    run = run(rollouts=2, max_lag=0, mode="UCC")
    run.agents[1].lease()
    run.agents[1]._rings[0].write(*spoil)
    with pytest.raises(GmiError, match=r"GMI 1 has sent steps .* of which 0 had arrived: the queue is damaged"):
        run.trainer.take()


def test_ends_are_who_they_should_be(run, monkeypatch):
    run = run()
    with pytest.raises(UsageError, match=r"GMI 0 is not among the agents of these channels: \(1,\)"):
        join_as_agent(run.memory, run.mailboxes, 0, run.sizes, NOW_S)
    with pytest.raises(UsageError, match="GMI 5 is not among the 2 GMIs that share mailboxes"):
        join_as_trainer(run.memory, run.mailboxes, 0, sizes_of(agents=(1, 5)), NOW_S)
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(MachineError, match="channels need a processor of x86_64, AMD64, aarch64, not riscv64"):
        join_as_agent(run.memory, run.mailboxes, 1, run.sizes, NOW_S)


def test_nothing_is_left_open():
    before = len(open_descriptors())
    for _ in range(20):
        run = Run(sizes_of())
        send(run.agents[1].lease(), 1)
        run.update(1)
        run.close()
        del run
    assert len(open_descriptors()) == before
