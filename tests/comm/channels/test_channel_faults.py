"""Agents and trainers are killed and stopped while they act and learn."""

import os
import re
import signal
import threading
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.channels.channel_memory import GIVEN_BACK, ChannelMemory, is_made
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError
from tests.comm.channels.channel_run import ANSWER_S, started
from tests.comm.channels.traced_rollouts import sizes_of, some_sizes


def deaths_among(gmis, most=None):
    """Who dies: when it has begun so many rollouts, so many seconds later; and whether that is who stands in for it."""
    when = st.tuples(st.integers(0, 12), st.floats(0, 0.004), st.booleans())
    return st.dictionaries(st.sampled_from(gmis), when, max_size=most)


def kill(run, deaths):
    """All of them, each at its time, or when its run is over before."""
    left, deadline = dict(deaths), time.monotonic() + ANSWER_S
    while left:
        for gmi, (begun, after_s, is_proxy) in deaths.items():
            if gmi in left and (len(run.leases[gmi]) >= begun or not run.processes[gmi].is_alive()):
                time.sleep(after_s)
                kill_agent(run, gmi, is_proxy)
                del left[gmi]
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def kill_agent(run, gmi, is_proxy):
    if is_proxy and gmi in run.proxy_pairs:
        assert run.proxy_pairs[gmi].has_met.wait(ANSWER_S)  # before, its agent would wait long for it
        run.proxies[gmi].kill()
    else:
        run.processes[gmi].kill()


def kill_at_once(processes):
    """None sees another end."""
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    for process in processes:
        process.kill()


def errors_of_agents(run, killed):
    """What ended each agent that was not killed, if it was an error. All have ended."""
    errors = {}
    for gmi in run.sizes.agents:
        run.processes[gmi].join(ANSWER_S)
        code = run.processes[gmi].exitcode
        assert code == 0 or (code == -signal.SIGKILL and gmi in killed), f"GMI {gmi} ended with {code}"
        if code == 0:
            errors[gmi] = run.said(gmi)
    return errors


def check(run, dropped, trainers, unheard):
    """What came, each rollout once; what these trainers were to get they have learnt from, or counted as dropped.

    So many agents may have leased a place and not have said so any more.
    """
    came = {gmi: [tuple(rollout) for rollout in log.rows()] for gmi, log in run.learnt.items()}
    assert set(Counter(rollout for of_trainer in came.values() for rollout in of_trainer).values()) <= {1}
    to = {(gmi, rollout): rank for gmi, log in run.leases.items() for rollout, (rank,) in enumerate(log.rows())}
    for rank, gmi in enumerate(run.sizes.trainers):
        assert all(to[rollout] == rank for rollout in came[gmi])
    wanted = sum(run.sizes.trainers[rank] in trainers for rank in to.values())
    assert wanted <= sum(len(came[gmi]) for gmi in trainers) + dropped.total() <= wanted + unheard
    return came


@st.composite
def runs_without_some_agents(draw):
    """Sizes of a run, which agents are far, and which die."""
    sizes = draw(some_sizes())
    return sizes, draw(st.sets(st.sampled_from(sizes.agents))), draw(deaths_among(sizes.agents))


@settings(max_examples=30)
@given(runs_without_some_agents())
def test_whichever_agents_are_killed_everything_is_trained_on_once_or_counted(drawn):
    sizes, far, killed = drawn
    with started(sizes, far=far) as run:
        kill(run, killed)
        said = [run.said(gmi) for gmi in sizes.trainers]
        for gmi, error in errors_of_agents(run, killed).items():
            assert error is None or (gmi in far and gmi in killed and "proxy" in str(error))
        assert max(lag for lag, _, _ in said) <= sizes.channels.max_lag
        dropped = sum((dropped for _, dropped, _ in said), Counter())
        assert set(dropped) <= {"experience ended", *(f"GMI {gmi} ended" for gmi in killed)}
        came = check(run, dropped, sizes.trainers, unheard=len(killed))
        if set(killed) != set(sizes.agents):
            assert [error for *_, error in said] == [None] * len(sizes.trainers)
            assert [len(of_trainer) for of_trainer in came.values()] == [6 * sizes.rollouts] * len(sizes.trainers)


@st.composite
def runs_without_some_trainers(draw):
    """The same, but that an agent lives; and which trainers die, when the first one has learnt from so many batches."""
    sizes = draw(some_sizes())
    far = draw(st.sets(st.sampled_from(sizes.agents)))
    trainers = draw(st.sets(st.sampled_from(sizes.trainers), min_size=1))
    return sizes, far, draw(deaths_among(sizes.agents, most=len(sizes.agents) - 1)), trainers, draw(st.integers(0, 8))


@settings(max_examples=30)
@given(runs_without_some_trainers())
def test_whichever_trainers_are_killed_the_run_ends_naming_one_and_nothing_came_twice(drawn):
    sizes, far, agents, trainers, batches = drawn
    with started(sizes, far=far, updates=10**6) as run:
        kills = threading.Thread(target=kill, args=(run, agents), daemon=True)
        kills.start()
        deadline = time.monotonic() + ANSWER_S
        while len(run.learnt[sizes.trainers[0]]) < batches * sizes.rollouts:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        kill_at_once([run.processes[gmi] for gmi in trainers])
        kills.join(ANSWER_S)
        assert not kills.is_alive()
        said = {gmi: run.said(gmi) for gmi in sizes.trainers if gmi not in trainers}
        errors = [*(error for *_, error in said.values()), *errors_of_agents(run, agents).values()]
        named = re.compile("|".join(rf"GMI {gmi} \(process {run.processes[gmi].pid}\) ended" for gmi in trainers))
        assert any(isinstance(error, PeerDiedError) and named.search(str(error)) for error in errors)
        assert all(isinstance(error, GmiError) for *_, error in said.values())
        assert said or all(errors), "no agent is told that this was all"
        assert max((lag for lag, _, _ in said.values()), default=0) <= sizes.channels.max_lag
        dropped = sum((dropped for _, dropped, _ in said.values()), Counter())
        came = check(run, dropped, said, unheard=len(far | set(agents)))
        for gmi, count in given_back(run).items():
            assert count <= len(came[gmi]) <= count + sizes.rollouts


def given_back(run):
    """Rollouts with which each trainer is done: it has given their places back."""
    if not is_made(run.memory):
        return {}
    memory = ChannelMemory(run.memory, run.sizes, run.notifier(run.sizes.agents[0]))
    return {gmi: memory.table(rank)[GIVEN_BACK] for rank, gmi in enumerate(run.sizes.trainers)}


def test_agents_are_told_which_trainer_was_killed():
    with started(sizes_of(agents=(2, 3), trainers=(0, 1), max_lag=0), updates=10**6, far={3}) as run:
        while min(map(len, run.leases.values())) < 3:
            time.sleep(0.01)
        os.kill(run.processes[0].pid, signal.SIGSTOP)  # else it would end the experience when it sees that
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
            f"GMI 1 (process {(run.proxies if far else run.processes)[1].pid}) lives but has not sent experience for"
        )


def test_an_agent_that_is_stopped_is_named_while_another_still_sends():
    sizes = sizes_of(rollouts=2, agents=(2, 3), trainers=(0, 1), max_lag=1000)  # room for minutes
    with started(sizes, hang_s=5.0, updates=10**6, stops=(2, 3), pause_s=0.05) as run:
        said = [run.said(gmi)[-1] for gmi in sizes.trainers]
        error = next(error for error in said if isinstance(error, PeerSilentError))
        assert str(error).startswith(f"GMI 2 (process {run.processes[2].pid}) lives but has not sent experience")
        assert len(run.leases[3]) < 2 * sizes.places - len(run.leases[2]), "only when no place was left"


@pytest.mark.parametrize("far", [(), (1,)], ids=["near", "far"])
def test_agents_give_up_a_trainer_that_is_stopped(far):
    with started(sizes_of(agents=(1,), max_lag=1), hang_s=5.0, updates=10**6, far=far) as run:
        while len(run.leases[1]) < 3:
            time.sleep(0.01)
        os.kill(run.processes[0].pid, signal.SIGSTOP)
        error = run.said(1)
        assert isinstance(error, PeerSilentError)
        assert f"GMI 0 (process {run.processes[0].pid}) lives but has not made room for experience" in str(error)
