"""A served ring plays what `play` plays, with the environments of each member, whoever acts."""

import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.layout import GMI
from gmi_drl.roles.serving.player import Player
from gmi_drl.roles.workers.ends import inline_stream
from gmi_drl.roles.workers.forward import kinds_of
from gmi_drl.roles.workers.served_ring import ServedRing, ServedShare
from gmi_drl.roles.workers.several import Frozen
from gmi_drl.tasks import make
from tests.roles.workers.workers_in_process import CPU, Served

CONFIG, EACH = PPOConfig(hidden=(8,), horizon=8), 3


def worlds(seed):
    return make("ball_balance", num_env=EACH, seed=seed)


def generators(members, *, stochastic):
    return [torch.Generator().manual_seed(70 + member) if stochastic else None for member in range(members)]


def sums_of(episodes):
    returns, lengths = (sum(getattr(one, name) for one in episodes) for name in ("total", "length"))
    return [len(episodes), returns, lengths, 0]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("members", [1, 2])
def test_members_play_what_players_play(members, stochastic, remote):
    tasks = [worlds(member) for member in range(members)]
    spec, noise = tasks[0].spec, generators(members, stochastic=stochastic)
    agent, served = make_agent(spec, CONFIG, CPU, seed=0), Served()
    if remote:
        served.agent = agent
        inference = served(kinds_of(spec, CONFIG.rollout_form(spec, members * EACH), members), members, None)
    else:
        gmi = GMI(id=0, roles=("simulator", "agent"), num_env=members * EACH, ring=members, cores=(0,))
        inference = inline_stream(RunConfig(learner=CONFIG), spec, agent, gmi)
    ring = ServedRing(tasks, [ServedShare(tasks, inference, CONFIG, noise)])
    for steps in (10, 1, 109):
        ring.play(steps)
        phases, latencies = ring.phases(), ring.latencies()
        assert set(phases) == {"sim_s", "act_s", "sync_s"} and len(latencies) == steps
        if steps == 10:  # later the physics has made much of the rounding of batches of another size
            seen = [task.obs.clone() for task in tasks]
    if remote:
        served.close()
    players = [
        Player(worlds(member), agent, one) for member, one in enumerate(generators(members, stochastic=stochastic))
    ]
    for player, obs in zip(players, seen, strict=True):
        for step in range(120):
            player.step()
            assert step != 9 or torch.allclose(obs, player.task.obs, atol=1e-3)
    episodes = [one for player in players for one in player.finished]
    assert episodes and ring.num_env == members * EACH
    if members == 1:  # in batches of the same size, so that numbers are the same
        assert ring.sums.tolist() == pytest.approx(sums_of(episodes), rel=1e-3)


def share_of(tasks, agent, rows):
    """A share of some rows, whose actions an agent beside it gives by the mode."""
    gmi = GMI(id=0, roles=("simulator", "agent"), num_env=len(tasks) * len(rows), ring=len(tasks), cores=(0,))
    inline = inline_stream(RunConfig(learner=CONFIG), tasks[0].spec, agent, gmi)
    return ServedShare(tasks, inline, CONFIG, [None] * len(tasks), rows)


def test_each_part_acts_in_its_own_rows_and_its_episodes_are_counted_apart():
    """Environments do not touch each other, so each row is as where its agent acts in all rows."""
    tasks, rows = [worlds(member) for member in range(2)], [torch.tensor(own) for own in ([1], [0], [2])]
    agents = [make_agent(tasks[0].spec, CONFIG, CPU, seed=seed) for seed in range(3)]
    shares = [share_of(tasks, agent, own) for agent, own in zip(agents[:2], rows[:2], strict=True)]
    ring = ServedRing(tasks, shares, [Frozen(tasks, rows[2], agents[2], [None, None])])
    ring.play(10)
    for agent, own in zip(agents, rows, strict=True):
        alone = [worlds(member) for member in range(2)]
        ServedRing(alone, [share_of(alone, agent, torch.arange(EACH))]).play(10)
        for task, other in zip(tasks, alone, strict=True):
            assert torch.allclose(task.obs[own], other.obs[own], atol=1e-3)
    ring.play(600)
    parts = ring.sums_of_parts
    assert len(parts) == 3 and all(part[0] > 0 for part in parts)
    assert torch.stack(parts).sum(0).tolist() == ring.sums.tolist()


def test_a_member_is_asked_for_before_the_one_before_it_steps():
    """While one member steps, the request of the next is under way."""
    seen = []

    class Worlds:
        def __init__(self, member):
            self._task, self._member = worlds(member), member

        def __getattr__(self, name):
            return getattr(self._task, name)

        def step(self, action):
            seen.append(f"step {self._member}")
            return self._task.step(action)

    tasks = [Worlds(member) for member in range(2)]
    spec, agent = tasks[0].spec, make_agent(tasks[0].spec, CONFIG, CPU, seed=0)
    gmi = GMI(id=0, roles=("simulator", "agent"), num_env=2 * EACH, ring=2, cores=(0,))
    inline = inline_stream(RunConfig(learner=CONFIG), spec, agent, gmi)

    class Told:
        requests, wait_s, take = inline.requests, 0.0, inline.take

        def post(self, member, what=0, version=0):
            seen.append(f"post {member}")
            inline.post(member, what, version)

    ServedRing(tasks, [ServedShare(tasks, Told(), CONFIG, [None, None])]).play(2)
    assert seen == ["post 0", "post 1", "step 0", "post 0", "step 1", "post 1", "step 0", "step 1"]
