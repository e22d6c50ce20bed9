"""Who is slow and not silent is waited for by all who wait for it, through whomever; who is silent is named first-hand.

An agent sends a step each `STEP_S`, and others wait some times `HANG_S`: a busy machine has room between.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.groups.shared_memory import SharedMemoryGroup
from gmi_drl.comm.membership import Keepalives, Membership
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_segment
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import PeerSilentError
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector
from tests.comm.channels.proxy_pair import ProxyPair
from tests.comm.channels.test_remote_agents import Run as OneOfSeveral
from tests.comm.channels.traced_rollouts import parameters, rollouts_in, send, sizes_of

HANG_S, STEP_S, WAIT_S = 2.0, 0.04, 60.0
FORM = RolloutForm(horizon=200, num_env=1, observation=vector(1), action=continuous(1))
SLOW, NEAR, FAR = 2, 3, 4


class Run:
    """Trainers 0 and 1, which sum, and agents: a slow one, and two of which one is on another host.

    There is a place for each trainer. The slow agent has that of trainer 0, a fast one has filled that of trainer 1,
    which waits in the sum for trainer 0, and both fast ones wait for the next place.
    """

    def __init__(self):
        self.sizes = sizes_of(agents=(SLOW, NEAR, FAR), trainers=(0, 1), form=FORM, max_lag=0, mode="UCC")
        self.mailboxes, self.memory, self.segment = create_mailboxes(range(5)), create_memory(), create_segment(2, 1024)
        self.keepalives = {gmi: Keepalives() for gmi in self.sizes.trainers}
        self.trainers = [self.trainer(gmi) for gmi in self.sizes.trainers]
        self.trainers[0].parameters.publish(0, parameters())
        self.slow, self.near = (
            join_as_agent(self.memory, self.mailboxes, gmi, self.sizes, HANG_S) for gmi in (SLOW, NEAR)
        )
        proxy_pair = ProxyPair(FAR)
        proxy_pair.serving(self.memory, self.mailboxes, HANG_S, print)
        self.far = proxy_pair.agent_end(self.sizes, HANG_S)

    def trainer(self, gmi):
        return join_as_trainer(self.memory, self.mailboxes, gmi, self.sizes, HANG_S, keepalives=self.keepalives[gmi])

    def learn(self, rank):
        """Take a batch, meet the other trainer, go on."""
        try:
            member = Membership(rank, [[0, 1]], hang_s=2 * HANG_S, spins=False, keepalives=self.keepalives[rank])
            group = SharedMemoryGroup(member, Rendezvous(self.segment))
            self.trainers[rank].take()
            group.barrier()
            if rank == 0:
                self.trainers[0].parameters.publish(1, parameters(1))
            self.trainers[rank].give_back()
        except PeerSilentError as error:
            return str(error), time.monotonic()
        return None, 0.0

    def play_slowly(self, place, steps):
        for step in range(steps):
            for kind in FORM.kinds:
                if kind.is_stepwise:
                    place.wrote(kind.name, step)
            time.sleep(STEP_S)
        if steps == FORM.horizon:
            whole(place)

    def wait_for_place(self, agent):
        try:
            return agent.lease() is not None, 0.0
        except PeerSilentError:
            return False, time.monotonic()

    def close(self):
        for end in (self.far, self.near, self.slow, *self.trainers):
            end.close()
        os.close(self.memory)
        os.close(self.segment)
        self.mailboxes.close()


def whole(place):
    for kind in FORM.kinds:
        place.wrote_whole(kind.name)
    place.commit()


@pytest.fixture
def run():
    made = Run()
    yield made
    made.close()


def together(run, steps):
    """What trainers and the fast agents come to while the slow one plays so many steps."""
    place = run.slow.lease()
    whole(run.near.lease())
    with ThreadPoolExecutor(4) as pool:
        learns = [pool.submit(run.learn, rank) for rank in run.sizes.trainers]
        waits = [pool.submit(run.wait_for_place, agent) for agent in (run.near, run.far)]
        run.play_slowly(place, steps)
        return [one.result(WAIT_S) for one in learns], [one.result(WAIT_S) for one in waits]


def test_an_agent_that_is_slow_and_sends_ends_nobody_who_waits_for_it(run):
    """It plays for four times `HANG_S`; without its steps each of the others would have given up before."""
    learnt, waited = together(run, FORM.horizon)
    assert [error for error, _ in learnt] == [None, None] and [has_place for has_place, _ in waited] == [True, True]


def test_an_agent_that_falls_silent_is_named_by_the_trainer_that_waits_for_it(run):
    ((first, _), (second, _)), waited = together(run, 5)
    assert first.startswith(f"GMI {SLOW} (process {os.getpid()}) lives but has not sent experience for 2 s (hang_s)")
    assert second.startswith("rank 0 ")
    assert not any(has_place for has_place, _ in waited)


def test_what_a_trainer_hears_is_told_to_whom_else_it_may_concern(run):
    told = []
    run.keepalives[0].send.append(lambda: told.append("heard"))
    place = run.slow.lease()
    run.play_slowly(place, 1)
    run.trainers[0]._process_events()
    run.trainers[0]._process_events()
    assert told == ["heard"]
    before = run.trainers[1]._memory.keepalives
    run.keepalives[1].received[0]()  # trainer 1, in a group, is told so by another rank
    assert before == (before[0], before[1]) and run.trainers[1]._memory.keepalives == (before[0], before[1] + 1)


def test_an_agent_that_has_waited_for_trainers_of_another_policy_has_hang_s_from_then_on():
    hang_s = 2.0
    with closing(OneOfSeveral(sizes_of(agents=(1,), max_lag=0), False, hang_s)) as run, ThreadPoolExecutor(1) as pool:
        agent, place = run.agents[1], run.agents[1].lease()
        agent.note_elsewhere(waits=True)
        taking = pool.submit(run.trainer.take)
        time.sleep(0.7 * hang_s)
        agent.note_elsewhere(waits=False)
        time.sleep(0.7 * hang_s)
        send(place, 1)
        assert rollouts_in(taking.result(WAIT_S)) == [(1, 0)]


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("goes_on", [False, True])
def test_an_agent_that_waits_for_trainers_of_another_policy_is_not_named_before_it_names_them(is_far, goes_on):
    """It waits for these twice `hang_s`. Meanwhile its own trainer shows all others that it is alive."""
    hang_s, told = 0.5, []
    with closing(OneOfSeveral(sizes_of(agents=(1,), max_lag=0), is_far, hang_s)) as run, ThreadPoolExecutor(1) as pool:
        run.trainer._keepalives.send.append(lambda: told.append(time.monotonic()))
        agent, place, began = run.agents[1], run.agents[1].lease(), time.monotonic()
        agent.note_elsewhere(waits=True)
        taking = pool.submit(run.trainer.take)
        time.sleep(2.5 * hang_s)
        assert not taking.done() and told
        agent.note_elsewhere(waits=not goes_on)
        if goes_on:
            send(place, 1)
            assert rollouts_in(taking.result(WAIT_S)) == [(1, 0)]
            return
        with pytest.raises(PeerSilentError, match=r"^GMI 1 .*has not sent experience for 1\.5 s \(3 x hang_s\)"):
            taking.result(WAIT_S)
        assert time.monotonic() - began > 4 * hang_s
