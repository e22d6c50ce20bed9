"""Whatever the order in which agents act, trainers train and agents end: nothing is lost, nothing comes twice."""

import os
import subprocess
from collections import Counter, deque

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gmi_drl.comm.channels import create_memory, join_as_agent, join_as_trainer
from gmi_drl.comm.memory.mailbox_memory import MailboxMemory, create_mailboxes
from gmi_drl.errors import PeerDiedError, PeerSilentError
from tests.comm.channels.traced_rollouts import (
    FORM,
    KINDS,
    RECORDS,
    STEPWISE,
    parameters,
    pieces,
    rollouts_in,
    sizes_of,
    write,
)

AT_ONCE = 0.0  # seconds: what would wait is refused, and tried again later


class Agent:
    """An agent that acts piece by piece. Its process is one that does nothing else, so that it may end.

    Up to `behind` records are told later than they are written, as those of a far agent: also while the next place is
    leased, but not those of the rollout before the last.
    """

    def __init__(self, end, gmi, memory, behind, predecessors=()):
        self.end, self.gmi, self.behind, self.predecessors = end, gmi, behind, predecessors
        end._send = lambda trainer, record: self.under_way.append((trainer, record))
        self.under_way = deque()
        self.told = {}  # steps of each kind, by rollout
        self.process = subprocess.Popen(["sleep", "1000"])
        memory.set_pid(gmi, self.process.pid)
        self.place, self.left = None, []
        self.versions = predecessors[-1].versions if predecessors else {}  # that acted, by rollout
        self.is_alive, self.is_done = True, False

    def act(self):
        """One piece; whether that was possible."""
        if self.place is None:
            return self.lease()
        if self.left:
            write(self.place, self.gmi, *self.left[0])
            del self.left[0]
        else:
            self.place.commit()
            self.place = None
        while len(self.under_way) > self.behind:
            self.tell()
        return True

    def lease(self):
        """The next place, or another record told while there is none; whether that was possible."""
        while self.under_way and self.under_way[0][1].rollout < self.end.rollouts - 1:
            self.tell()
        try:
            self.place = self.end.lease()
        except PeerSilentError:
            return bool(self.under_way) and self.tell()
        self.is_done = self.place is None
        if not self.is_done:
            self.versions[self.place.rollout] = self.end.parameters.read_into(parameters())
            self.told[self.place.rollout] = dict.fromkeys(KINDS.values(), 0)
            self.left = pieces()
        return not self.is_done

    def tell(self):
        """One record, the first that was not told."""
        trainer, record = self.under_way.popleft()
        self.end.send(trainer, record)
        self.told[record.rollout][record.kind] = record.last
        return True

    def kill(self):
        self.is_alive = False
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is its own

    @property
    def unfinished(self):
        """The steps told of each rollout that its end leaves half-way."""
        steps = {number: FORM.horizon if name in STEPWISE else 1 for name, number in KINDS.items()}
        return [min(told[KINDS[name]] for name in STEPWISE) for told in self.told.values() if told != steps]


class Agents:
    """The agents that there are now, by id. One that was killed may be succeeded."""

    def __init__(self, behind, open_end, memory):
        self.open_end, self.memory = open_end, memory
        self.now = {gmi: Agent(open_end(gmi, 0), gmi, memory, records) for gmi, records in behind.items()}

    def succeed(self, gmi):
        last = self.now[gmi]
        before = (*last.predecessors, last)
        self.now[gmi] = Agent(self.open_end(gmi, len(before)), gmi, self.memory, last.behind, before)

    def dead(self):
        return [gmi for gmi, agent in self.now.items() if not agent.is_alive]

    def processes_of(self, gmi):
        return (*self.now[gmi].predecessors, self.now[gmi])

    def close(self):
        for gmi in self.now:
            for agent in self.processes_of(gmi):
                agent.process.kill()
                agent.process.wait()
                agent.end.close()


class Team:
    """The trainers, which learn together."""

    def __init__(self, ends, sizes, agents):
        self.ends, self.sizes, self.agents = ends, sizes, agents
        self.taken, self.came, self.version = {}, Counter(), 0
        ends[0].parameters.publish(0, parameters())

    def act(self):
        """Take what there is and, when all have a batch, learn from it."""
        for rank, end in enumerate(self.ends):
            if rank not in self.taken:
                try:
                    self.taken[rank] = end.take()
                except PeerSilentError:
                    continue
        if len(self.taken) < len(self.ends):
            return False
        for batch in self.taken.values():
            rollouts = rollouts_in(batch)
            self.came.update(rollouts)
            for gmi, rollout in rollouts:
                lag = self.version - self.agents.now[gmi].versions[rollout]
                assert 0 <= lag <= self.sizes.channels.max_lag
        self.version += 1
        self.ends[0].parameters.publish(self.version, parameters(self.version))
        for end in self.ends:
            end.give_back()
        self.taken.clear()
        return True


@st.composite
def runs(draw):
    """Sizes of a run, how far agents are behind, and its schedule.

    That is who acts for how long, who ends, and whether they are succeeded.
    """
    agents, trainers = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    sizes = sizes_of(
        rollouts=draw(st.integers(1, 4)),
        agents=tuple(range(agents)),
        trainers=tuple(range(agents, agents + trainers)),
        mode=draw(st.sampled_from(["MCC", "UCC"])),
        max_lag=draw(st.integers(0, 3)),
        transfer_bytes=draw(st.sampled_from([1, 80, 2**20])),
    )
    turn = st.tuples(st.integers(-1, agents - 1), st.integers(0, 70))
    return (
        sizes,
        draw(st.fixed_dictionaries(dict.fromkeys(sizes.agents, st.sampled_from([0, RECORDS["MCC"], RECORDS["UCC"]])))),
        draw(st.lists(turn, max_size=60)),
        draw(st.lists(st.integers(0, agents - 1), max_size=agents, unique=True)),
        draw(st.booleans()),
    )


AHEAD = (
    sizes_of(agents=(0, 1, 2, 3), trainers=(4,), mode="UCC", max_lag=3),
    {0: RECORDS["UCC"], 1: 0, 2: 0, 3: 0},
    [(0, RECORDS["UCC"] * 3 // 2), (-1, 0), (0, 4 * RECORDS["UCC"]), (-1, 0)],
    [],
    False,
)
"""The trainer takes part of a rollout from the queue, and its agent leases more before all of the last one is told."""


@settings(max_examples=40)
@given(runs())
@example(AHEAD)
def test_every_rollout_arrives_once_or_is_counted_as_dropped(drawn):
    sizes, behind, turns, ends, are_succeeded = drawn
    mailboxes, memory = create_mailboxes(range(len(sizes.agents + sizes.trainers))), create_memory()
    rest = sizes, AT_ONCE, "cpu"
    trainers = [join_as_trainer(memory, mailboxes, gmi, *rest, are_succeeded) for gmi in sizes.trainers]
    post_memory = MailboxMemory(mailboxes.memory)
    agents = Agents(behind, lambda gmi, before: join_as_agent(memory, mailboxes, gmi, *rest, before), post_memory)
    size = os.fstat(memory).st_size
    try:
        team = Team(trainers, sizes, agents)
        live(team, agents, turns, ends, are_succeeded)
        for trainer in trainers:
            trainer.end_experience()
        for agent in agents.now.values():
            while agent.is_alive and agent.act():
                pass
            assert agent.is_done or not agent.is_alive
        check(team, agents)
        assert os.fstat(memory).st_size == size == trainers[0]._memory.nbytes
    finally:
        agents.close()
        for end in trainers:
            end.close()
        os.close(memory)
        mailboxes.close()


def live(team, agents, turns, ends, are_succeeded):
    """The schedule, with an end after every few turns, and a while longer until nobody can act any more.

    A successor comes at the next turn of who has ended, or at last.
    """
    try:
        for number, (actor, pieces_of_turn) in enumerate(turns):
            if number % 9 == 8 and ends:
                agents.now[ends.pop()].kill()
            if actor < 0:
                team.act()
                continue
            if are_succeeded and actor in agents.dead():
                agents.succeed(actor)
            if agents.now[actor].is_alive:
                for _ in range(pieces_of_turn):
                    agents.now[actor].act()
        for gmi in agents.dead() if are_succeeded else ():
            agents.succeed(gmi)
        for _ in range(3):
            acted = [team.act()]  # which sees who has ended, and frees their places
            living = [agent for agent in agents.now.values() if agent.is_alive]
            acted.extend(agent.act() for agent in living for _ in range(len(pieces()) + 2))
            acted.append(team.act())
            assert any(acted), "whoever waits, waits for another who can go on"
    except PeerDiedError:
        assert len(agents.dead()) == len(agents.now)


def check(team, agents):
    leased = {(gmi, rollout) for gmi, agent in agents.now.items() for rollout in agent.versions}
    dropped = sum((trainer.dropped for trainer in team.ends), Counter())
    steps = sum((trainer.dropped_steps for trainer in team.ends), Counter())
    out = [rollout for batch in team.taken.values() for rollout in rollouts_in(batch)]  # taken, and not learnt from
    team.came.update(out)
    assert set(team.came) <= leased and set(team.came.values()) <= {1}
    assert len(team.came) + sum(dropped.values()) == len(leased)
    for gmi in agents.now:
        dead = [agent for agent in agents.processes_of(gmi) if not agent.is_alive]
        assert dropped[f"GMI {gmi} ended"] == sum(len(agent.unfinished) for agent in dead)
        assert steps[f"GMI {gmi} ended"] == sum(sum(agent.unfinished) for agent in dead)
    assert steps["experience ended"] <= dropped["experience ended"] * FORM.horizon
