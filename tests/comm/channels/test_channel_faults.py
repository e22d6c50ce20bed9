"""Agents and trainers as processes, which are killed and stopped while they act and learn.

Some agents are far: they share no memory with the trainers, and a process stands in for each.
"""

import mmap
import os
import signal
import time
from collections import Counter
from contextlib import contextmanager
from random import Random
from threading import BrokenBarrierError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.channels import agent_end, create_memory, trainer_end
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError
from gmi_drl.memory.post import PostMemory, create_post
from tests.comm.channels.far import AGENT, STAND_IN, Crossing
from tests.comm.channels.rollouts_told import parameters, pieces, rollouts_in, sizes_of, versions_in, write
from tests.comm.ranks import FORK

ANSWER_S = 120
HANG_S = 60.0


class Run:
    """What the processes of a run inherit, and what they say at their end, by GMI."""

    def __init__(self, sizes, hang_s, updates, stops, pause_s, far):
        gmis = sizes.agents + sizes.trainers
        self.sizes, self.hang_s, self.updates, self.stops, self.pause_s = sizes, hang_s, updates, stops, pause_s
        self.post, self.memory = create_post(1 + max(gmis)), create_memory()
        self.meeting = FORK.Barrier(len(sizes.trainers))
        self.begun = memoryview(mmap.mmap(-1, 8 * (1 + max(gmis)))).cast("q")  # rollouts that each agent leased
        self.pipes = {gmi: FORK.Pipe(duplex=False) for gmi in gmis}
        self.processes = {gmi: FORK.Process(target=self._live, args=(gmi,)) for gmi in gmis}
        self.crossings = {gmi: Crossing(gmi) for gmi in far}
        self.stand_ins = {gmi: FORK.Process(target=self._stand_in, args=(gmi,)) for gmi in far}

    def _live(self, gmi):
        torch.set_num_threads(1)
        self._keep(gmi, AGENT)
        said = self.act(gmi) if gmi in self.sizes.agents else self.learn(gmi)
        self.pipes[gmi][1].send(said)
        os._exit(0)

    def _keep(self, gmi, rank):
        """Close the listeners of all others: nobody shall answer for one that was killed."""
        for crossing in self.crossings.values():
            crossing.close(but=rank if crossing.gmi == gmi else None)

    def _stand_in(self, gmi):
        self._keep(gmi, STAND_IN)
        self.crossings[gmi].stand_in(self.memory, self.post, self.hang_s)
        os._exit(0)

    def end_of(self, gmi):
        if gmi in self.crossings:
            return self.crossings[gmi].agent_end(self.sizes, self.hang_s)
        return agent_end(self.memory, self.post, gmi, self.sizes, self.hang_s)

    def act(self, gmi):
        """Rollouts until no more are needed; the error that ended it, if any."""
        chance, weights = Random(gmi), parameters()
        try:
            end = self.end_of(gmi)
            while place := end.lease():
                self.begun[gmi] += 1
                version = end.parameters.read_into(weights)
                assert all(weight.eq(version).all() for weight in weights), "torn"
                for kind, step in pieces():
                    write(place, gmi, kind, step, version)
                    if chance.random() < 0.1:
                        time.sleep(chance.random() * 0.002)
                    if self.stops == (gmi, place.rollout) and step:
                        os.kill(os.getpid(), signal.SIGSTOP)
                place.commit()
                time.sleep(self.pause_s)
            end.close()
        except GmiError as error:
            return error
        return None

    def learn(self, gmi):
        """So many updates, or until no agent is left: what came, the largest lag, what was dropped, the error."""
        end = trainer_end(self.memory, self.post, gmi, self.sizes, self.hang_s)
        came, lag, error = [], 0, None
        if gmi == self.sizes.trainers[0]:
            end.parameters.publish(0, parameters())
        try:
            for version in range(self.updates):
                batch = end.take()
                came.extend(rollouts_in(batch))
                lag = max(lag, version - min(versions_in(batch)))
                self.meeting.wait(ANSWER_S)  # as for their gradients
                if gmi == self.sizes.trainers[0]:
                    end.parameters.publish(version + 1, parameters(version + 1))
                end.give_back()
            self.meeting.wait(ANSWER_S)
        except (GmiError, BrokenBarrierError) as ended:
            error = ended
            self.meeting.abort()
        end.end_experience()
        return came, lag, end.dropped, error

    def said(self, gmi):
        """What a GMI says at its end."""
        assert self.pipes[gmi][0].poll(ANSWER_S), f"GMI {gmi} says nothing"
        return self.pipes[gmi][0].recv()

    def close(self):
        for process in (*self.processes.values(), *self.stand_ins.values()):
            process.kill()
            process.join()
        for pipe in self.pipes.values():
            for end in pipe:
                end.close()
        os.close(self.memory)
        self.post.close()


@contextmanager
def started(sizes, hang_s=HANG_S, updates=6, stops=None, pause_s=0.0, far=()):
    """All GMIs of some sizes as processes, and who stands in for those that are far.

    One may stop half-way; all agents pause after each rollout.
    """
    run = Run(sizes, hang_s, updates, stops, pause_s, far)
    try:
        for process in (*run.processes.values(), *run.stand_ins.values()):
            process.start()
        for crossing in run.crossings.values():
            crossing.close()
        pids = PostMemory(run.post.memory, len(run.post.bells)).pids
        for gmi, process in {**run.processes, **run.stand_ins}.items():
            pids[gmi] = process.pid  # who is killed before it is there is seen to have ended all the same
        yield run
    finally:
        run.close()


@st.composite
def runs(draw):
    """Sizes of a run, which agents are far, and which are killed after how many seconds, or who stands in for them."""
    agents, trainers = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    sizes = sizes_of(
        rollouts=draw(st.integers(1, 3)),
        agents=tuple(range(trainers, trainers + agents)),
        trainers=tuple(range(trainers)),
        mode=draw(st.sampled_from(["MCC", "UCC"])),
        max_lag=draw(st.integers(0, 2)),
        transfer_bytes=draw(st.sampled_from([80, 2**20])),
    )
    far = draw(st.sets(st.sampled_from(sizes.agents)))
    when = st.tuples(st.floats(0, 0.3), st.booleans())
    return sizes, far, draw(st.dictionaries(st.sampled_from(sizes.agents), when, max_size=agents))


@settings(max_examples=12)
@given(runs())
def test_whoever_is_killed_everything_is_trained_on_once_or_counted(drawn):
    sizes, far, killed = drawn
    with started(sizes, far=far) as run:
        began = time.monotonic()
        for gmi, (after_s, is_stand_in) in sorted(killed.items(), key=lambda kill: kill[1]):
            time.sleep(max(0.0, began + after_s - time.monotonic()))
            if is_stand_in and gmi in far:
                assert run.crossings[gmi].has_met.wait(ANSWER_S)  # before, its agent would wait long for it
                run.stand_ins[gmi].kill()
            else:
                run.processes[gmi].kill()
        said = [run.said(gmi) for gmi in sizes.trainers]
        came = Counter(rollout for of_trainer, *_ in said for rollout in of_trainer)
        dropped = sum((of_trainer for *_, of_trainer, _ in said), Counter())
        for gmi in sizes.agents:
            run.processes[gmi].join(ANSWER_S)
            if run.processes[gmi].exitcode == 0:
                error = run.said(gmi)
                assert error is None or (gmi in far and gmi in killed and "stand-in" in str(error))
        assert max(lag for _, lag, _, _ in said) <= sizes.channels.max_lag
        assert set(came.values()) <= {1}
        begun = sum(run.begun)
        # One that was killed may have leased a place and not have said so, here, any more.
        assert begun <= len(came) + sum(dropped.values()) <= begun + len(killed)
        assert {cause for cause in dropped if cause != "experience ended"} <= {f"GMI {gmi} ended" for gmi in killed}
        if set(killed) != set(sizes.agents):
            assert [error for *_, error in said] == [None] * len(sizes.trainers)
            assert [len(of_trainer) for of_trainer, *_ in said] == [6 * sizes.rollouts] * len(sizes.trainers)


def test_agents_are_told_which_trainer_was_killed():
    with started(sizes_of(agents=(2, 3), trainers=(0, 1), max_lag=0), updates=10**6, far={3}) as run:
        while min(run.begun[2:]) < 3:
            time.sleep(0.01)
        run.processes[1].kill()
        for gmi in (2, 3):
            error = run.said(gmi)
            assert isinstance(error, PeerDiedError)
            assert f"GMI 1 (process {run.processes[1].pid}) ended" in str(error)


@pytest.mark.parametrize("far", [(), (1,)], ids=["near", "far"])
def test_an_agent_that_is_stopped_half_way_is_named_by_who_waits(far):
    with started(sizes_of(rollouts=2, agents=(1, 2)), hang_s=5.0, updates=10**6, stops=(1, 3), far=far) as run:
        *_, error = run.said(0)
        assert isinstance(error, PeerSilentError)
        assert str(error).startswith(
            f"GMI 1 (process {(run.stand_ins if far else run.processes)[1].pid}) lives but has not sent experience for"
        )


def test_an_agent_that_is_stopped_is_named_while_another_still_sends():
    sizes = sizes_of(rollouts=2, agents=(2, 3), trainers=(0, 1), max_lag=1000)  # room for minutes
    with started(sizes, hang_s=1.0, updates=10**6, stops=(2, 3), pause_s=0.05) as run:
        said = [run.said(gmi)[-1] for gmi in sizes.trainers]
        error = next(error for error in said if isinstance(error, PeerSilentError))
        assert str(error).startswith(f"GMI 2 (process {run.processes[2].pid}) lives but has not sent experience")
        assert run.begun[3] < 2 * sizes.places - run.begun[2], "only when no place was left"


@pytest.mark.parametrize("far", [(), (1,)], ids=["near", "far"])
def test_agents_give_up_a_trainer_that_is_stopped(far):
    with started(sizes_of(agents=(1,), max_lag=1), hang_s=2.0, updates=10**6, far=far) as run:
        while run.begun[1] < 3:
            time.sleep(0.01)
        os.kill(run.processes[0].pid, signal.SIGSTOP)
        error = run.said(1)
        assert isinstance(error, PeerSilentError)
        assert f"GMI 0 (process {run.processes[0].pid}) lives but has not given back places" in str(error)
