"""Learning from a ring on one GMI: when updates begin, what they learn, and going on from a checkpoint."""

import pytest
import torch
from roles.replay.line_task import STEPS, Line
from safetensors.torch import load_file

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import DQNConfig, SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.replay.replica import ReplayReplica
from gmi_drl.roles.training.evaluation import play_episodes
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.run.checkpoint import write_part

CPU, N = torch.device("cpu"), 4
SMALL = {"hidden": (16,), "horizon": 5, "batch": 8, "learning_rate": 1e-2}


def settings(kind, replay, **more):
    cls = DQNConfig if kind == "dqn" else SACConfig
    own = {"stream": 8, "target_every": 7, "epsilon_steps": 200} if kind == "dqn" else {"actor_every": 2}
    return cls(**SMALL | own | more, replay=ReplaySettings(**{"size": 400, "min_size": 12} | replay))


def replica_of(learner, *, knows=True):
    config = RunConfig(learner=learner)
    task = Line(N, chooses=isinstance(learner, DQNConfig))
    task.knows_final_obs = knows
    sizes = {"num_env": N, "group_num_env": N}
    replica = ReplayReplica(task.spec, config, NoReduction(), device=CPU, seed=3, **sizes)
    replica.attach_task(task, seed=4)
    return replica


def go_on():
    return Decision.GO_ON


def states(replica):
    parts = {"learner": replica.learner_state(), "local": replica.local_state()}
    return {f"{part}.{name}": tensor.clone() for part, state in parts.items() for name, tensor in state.items()}


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_updates_begin_when_the_ring_has_the_least_size(kind):
    replica = replica_of(settings(kind, {"min_size": 40}, updates_per_step=0.6))
    done = []
    for _ in range(4):
        stats = replica.iterate(go_on)
        metrics = replica.metrics()
        done.append((metrics["updates"], "q_loss" in metrics, stats.metrics["replay_steps"]))
    assert done == [(0, False, 16), (3, True, 36), (6, True, 56), (9, True, 76)]


@pytest.mark.parametrize("replay", [{}, {"sampler": "prioritized", "next_obs": "twice"}])
def test_a_ring_tells_how_much_larger_its_checkpoint_becomes(replay):
    replica = replica_of(settings("sac", replay | {"min_size": 400}))
    tells, empty = replica.growth_bytes(), bytes_of(replica.local_state())
    for _ in range(10):
        replica.iterate(go_on)
    assert replica.growth_bytes() == tells / 2
    for _ in range(10):
        replica.iterate(go_on)
    grown = bytes_of(replica.local_state()) - empty
    assert 0 < grown <= tells <= 1.4 * grown, "priorities do not count, which are saved from the beginning"
    assert replica.growth_bytes() == 0
    assert replica_of(settings("sac", replay | {"saved": False})).growth_bytes() == 0


def bytes_of(state):
    return sum(tensor.nbytes for tensor in state.values())


@pytest.mark.parametrize("kind", ["dqn", "sac"])
@pytest.mark.parametrize("replay", [{}, {"sampler": "prioritized", "n_step": 3, "next_obs": "twice"}])
def test_it_learns_to_walk_up(kind, replay):
    replica = replica_of(settings(kind, replay, gamma=0.9, updates_per_step=4.0))
    for _ in range(40):
        replica.iterate(go_on)
    _, returns, lengths = play_episodes(Line(8, chooses=kind == "dqn", seed=9), replica.policy()).tolist()
    assert returns / 8 > 45 and lengths == 8 * STEPS  # the best is near 57


@pytest.mark.parametrize("kind", ["dqn", "sac"])
@pytest.mark.parametrize(
    "replay", [{"n_step": 3}, {"sampler": "prioritized", "next_obs": "twice"}, {"size": 44, "placement": "shared"}]
)
def test_what_goes_on_from_a_checkpoint_is_what_was_not_interrupted(kind, replay, tmp_path):
    learner = settings(kind, replay, normalise=kind == "sac")
    whole = replica_of(learner)
    for number in range(8):
        whole.iterate(go_on)
        if number == 4:
            files = [write_part(tmp_path, "gmi-0", whole.local_state())]
            files.append(write_part(tmp_path, "learner", whole.learner_state()))
    resumed = replica_of(learner)
    resumed.load_learner_state(load_file(files[1]))
    resumed.load_local_state(load_file(files[0]))
    for _ in range(3):
        resumed.iterate(go_on)
    wanted, found = states(whole), states(resumed)
    assert wanted.keys() == found.keys()
    assert [name for name, tensor in wanted.items() if not torch.equal(tensor, found[name])] == []


def test_a_ring_that_is_not_saved_begins_empty():
    learner = settings("sac", {"saved": False})
    first, second = replica_of(learner), replica_of(learner)
    for _ in range(3):
        first.iterate(go_on)
    state = first.local_state()
    assert not any(name.startswith("ring") for name in state)
    second.load_learner_state(first.learner_state())
    second.load_local_state(state)
    assert second.ring.written == 0
    second.iterate(go_on)
    assert second.learner.agent.policy.exploration == 0  # the policy has learnt: it acts


def test_environments_that_begin_anew_do_not_follow_the_last_step():
    learner = settings("dqn", {"next_obs": "twice"})
    first, second = replica_of(learner), replica_of(learner)
    first.iterate(go_on)
    state = {name: tensor for name, tensor in first.local_state().items() if not name.startswith("task.")}
    second.actor.task.load_state_dict = lambda state: None
    second.load_local_state(state)
    second.iterate(go_on)
    keys = torch.arange(4 * N, 6 * N)
    assert second.ring.windows_at(keys).is_valid.tolist() == [False] * N + [True] * N


@pytest.mark.parametrize("knows", [True, False])
def test_ends_by_the_time_limit_are_learnt_from_if_the_last_observation_is_stored(knows):
    replica = replica_of(settings("dqn", {"next_obs": "twice"}), knows=knows)
    replica.actor.task.episode_length.fill_(STEPS - 1)
    replica.iterate(go_on)
    assert replica.ring.windows_at(torch.arange(N)).is_valid.tolist() == [knows] * N


def test_errors_that_are_not_finite_are_no_priorities():
    replica = replica_of(settings("dqn", {"sampler": "prioritized"}))
    replica.learner.updater.update = lambda batch, weights: torch.tensor([torch.nan, torch.inf] * 4)
    replica.iterate(go_on)
    assert 0 < replica.ring.mass().item() < torch.inf
