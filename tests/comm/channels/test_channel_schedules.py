"""Whatever the order in which agents act, trainers train and agents end: nothing is lost, nothing comes twice."""

import os
import subprocess
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.comm.channels import agent_end, create_memory, trainer_end
from gmi_drl.errors import PeerDiedError, PeerSilentError
from gmi_drl.memory.post import PostMemory, create_post
from tests.comm.channels.rollouts_told import FORM, STEPWISE, parameters, pieces, rollouts_in, sizes_of, write

AT_ONCE = 0.0  # seconds: what would wait is refused, and tried again later


class Agent:
    """An agent that acts piece by piece. Its process is one that does nothing else, so that it may end."""

    def __init__(self, end, gmi, pids):
        self.end, self.gmi = end, gmi
        self.process = subprocess.Popen(["sleep", "1000"])
        pids[gmi] = self.process.pid
        self.place, self.left, self.versions = None, [], []
        self.is_alive, self.is_done = True, False

    def act(self):
        """One piece; whether that was possible."""
        try:
            if self.place is None:
                self.place = self.end.lease()
                self.is_done = self.place is None
                if self.is_done:
                    return False
                self.versions.append(self.end.parameters.read_into(parameters()))
                self.left = pieces()
            elif self.left:
                write(self.place, self.gmi, *self.left[0])
                del self.left[0]
            else:
                self.place.commit()
                self.place = None
        except PeerSilentError:
            return False
        return True

    def kill(self):
        self.is_alive = False
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and its number is its own

    @property
    def unfinished(self):
        """Rollouts that its end leaves half-way: none or one."""
        return int(self.place is not None and bool(self.left))

    @property
    def steps_told(self):
        return min(self.end._channels[kind].sent for kind in STEPWISE) if self.unfinished else 0


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
                lag = self.version - self.agents[gmi].versions[rollout]
                assert 0 <= lag <= self.sizes.channels.max_lag
        self.version += 1
        self.ends[0].parameters.publish(self.version, parameters(self.version))
        for end in self.ends:
            end.give_back()
        self.taken.clear()
        return True


@st.composite
def runs(draw):
    """Sizes of a run, and its schedule: who acts for how long, and who ends."""
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
        draw(st.lists(turn, max_size=60)),
        draw(st.lists(st.integers(0, agents - 1), max_size=agents, unique=True)),
    )


@settings(max_examples=40)
@given(runs())
def test_every_rollout_arrives_once_or_is_counted_as_dropped(drawn):
    sizes, turns, ends = drawn
    post, memory = create_post(len(sizes.agents + sizes.trainers)), create_memory()
    trainers = [trainer_end(memory, post, gmi, sizes, AT_ONCE) for gmi in sizes.trainers]
    pids = PostMemory(post.memory, len(post.bells)).pids
    agents = [Agent(agent_end(memory, post, gmi, sizes, AT_ONCE), gmi, pids) for gmi in sizes.agents]
    size = os.fstat(memory).st_size
    try:
        team = Team(trainers, sizes, agents)
        live(team, agents, turns, ends)
        for trainer in trainers:
            trainer.end_experience()
        for agent in agents:
            while agent.is_alive and agent.act():
                pass
            assert agent.is_done or not agent.is_alive
        check(team, agents)
        assert os.fstat(memory).st_size == size == trainers[0]._memory.nbytes
    finally:
        for agent in agents:
            agent.process.kill()
            agent.process.wait()
        for end in (*trainers, *(agent.end for agent in agents)):
            end.close()
        os.close(memory)
        post.close()


def live(team, agents, turns, ends):
    """The schedule, with an end after every few turns, and a while longer until nobody can act any more."""
    try:
        for number, (actor, pieces_of_turn) in enumerate(turns):
            if number % 9 == 8 and ends:
                agents[ends.pop()].kill()
            if actor < 0:
                team.act()
            elif agents[actor].is_alive:
                for _ in range(pieces_of_turn):
                    agents[actor].act()
        for _ in range(3):
            acted = [team.act()]  # which sees who has ended, and frees their places
            acted.extend(agent.act() for agent in agents for _ in range(len(pieces()) + 2) if agent.is_alive)
            acted.append(team.act())
            assert any(acted), "whoever waits, waits for another who can go on"
    except PeerDiedError:
        assert not any(agent.is_alive for agent in agents)


def check(team, agents):
    leased = {(agent.gmi, rollout) for agent in agents for rollout in range(len(agent.versions))}
    dropped = sum((trainer.dropped for trainer in team.ends), Counter())
    steps = sum((trainer.dropped_steps for trainer in team.ends), Counter())
    out = [rollout for batch in team.taken.values() for rollout in rollouts_in(batch)]  # taken, and not learnt from
    team.came.update(out)
    assert set(team.came) <= leased and set(team.came.values()) <= {1}
    assert len(team.came) + sum(dropped.values()) == len(leased)
    for agent in agents:
        if not agent.is_alive:
            assert dropped[f"GMI {agent.gmi} ended"] == agent.unfinished
            assert steps[f"GMI {agent.gmi} ended"] == agent.steps_told
    assert steps["experience ended"] <= dropped["experience ended"] * FORM.horizon
