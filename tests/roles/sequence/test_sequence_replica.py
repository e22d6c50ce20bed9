"""The sequence policy on one GMI: what it learns, what it is asked for, and going on from a checkpoint."""

import pytest
import torch
from roles.replay.line_task import STEPS, Line
from roles.sequence.line_episodes import walked, walks

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import SequenceConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.replay import import_episodes
from gmi_drl.roles.sequence.replica import SequenceReplica
from gmi_drl.roles.serving.player import Player
from gmi_drl.roles.training.evaluation import play_episodes
from gmi_drl.roles.training.iteration_stats import Decision

CPU, N = torch.device("cpu"), 4
SMALL = {"width": 16, "heads": 2, "layers": 1, "context": 4, "horizon": 3, "updates": 20, "batch": 16}


def replica_of(folder, *, chooses=False, **settings):
    config = RunConfig(learner=SequenceConfig(data=folder, **SMALL | settings))
    task = Line(N, chooses=chooses)
    replica = SequenceReplica(task.spec, config, NoReduction(), AloneLink(), device=CPU)
    replica.attach_task(task, seed=4)
    return replica


def go_on():
    return Decision.GO_ON


def mean_return(replica, chooses):
    _, returns, lengths = play_episodes(Line(8, chooses=chooses, seed=9), replica.policy()).tolist()
    return returns / 8, lengths / 8


@pytest.mark.parametrize("chooses", (False, True))
def test_of_good_and_bad_walks_it_does_what_it_is_asked_for(tmp_path, chooses):
    """The best walk is near 57, the mean of the recorded ones less than half of it."""
    folder = walked(tmp_path / "a.replay", good=16, bad=16, chooses=chooses)
    replica = replica_of(folder, chooses=chooses, learning_rate=5e-3)
    for _ in range(4):
        stats = replica.iterate(go_on)
    best, length = mean_return(replica, chooses)
    assert best > 50 and length == STEPS
    replica.agent.normaliser.target.fill_(0.0)
    assert mean_return(replica, chooses)[0] < 25  # near 0: not what most of the episodes do
    assert replica.metrics()["updates"] == 80 and replica.metrics()["action_loss"] > 0
    assert stats.decision is Decision.GO_ON


def test_rows_have_the_returns_of_its_own_acting(tmp_path):
    replica = replica_of(walked(tmp_path / "a.replay"), horizon=STEPS + 1, updates=1)
    stats = replica.iterate(go_on)
    assert stats.episodes >= N and stats.length_sum > 0


def test_a_step_that_begins_an_episode_is_not_in_the_context(tmp_path):
    """Some simulators take a step to begin: recorded episodes have none."""
    replica = replica_of(walked(tmp_path / "a.replay"), horizon=2, updates=1)
    task = replica.actor.task
    step = task.step

    def beginning(action):
        *outcome, info = step(action)
        return *outcome, info | {"valid": torch.tensor([True, False, True, False])}

    task.step = beginning
    replica.iterate(go_on)
    assert replica.actor.state_dict()["context"][:, 0].tolist() == [2.0, 0.0, 2.0, 0.0]


def test_nor_is_it_where_the_policy_is_played(tmp_path):
    replica = replica_of(walked(tmp_path / "a.replay"))
    task, act, other = Line(N), replica.policy(), replica.policy()
    yes, rewards = torch.ones(N, dtype=torch.bool), torch.ones(N)
    act(task, yes, rewards, yes)
    went_on = act(task, ~yes, rewards, yes)
    begun = act(task, ~yes, rewards, ~yes)
    assert torch.equal(begun, other(task, yes, rewards, yes)) and not torch.equal(begun, went_on)
    player = Player(task, replica.agent)
    player.actions()
    player.receive(rewards, yes.clone().fill_(False))
    assert torch.equal(player.actions(), begun)


def test_choices_that_the_task_has_not_are_refused(tmp_path):
    episodes = [one | {"action": 3 * one["action"]} for one in walks(1, 0, chooses=True)]
    import_episodes(episodes, tmp_path / "a.replay")
    with pytest.raises(UsageError, match="has 3 as choice 0 of an action, line has 0 to 1"):
        replica_of(str(tmp_path / "a.replay"), chooses=True)


def states(replica):
    parts = {"learner": replica.learner_state(), "local": replica.local_state()}
    return {f"{part}.{name}": tensor.clone() for part, state in parts.items() for name, tensor in state.items()}


def test_what_goes_on_from_a_checkpoint_is_what_was_not_interrupted(tmp_path):
    folder = walked(tmp_path / "a.replay")
    replica = replica_of(folder)
    for _ in range(2):
        replica.iterate(go_on)
    learner = {name: tensor.clone() for name, tensor in replica.learner_state().items()}
    local = {name: tensor.clone() for name, tensor in replica.local_state().items()}
    other = replica_of(folder)
    other.load_learner_state(learner)
    other.load_local_state(local)
    for one in (replica, other):
        one.iterate(go_on)
    before, after = states(replica), states(other)
    assert before.keys() == after.keys()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []


def test_another_return_is_asked_for_where_a_run_goes_on(tmp_path):
    folder = walked(tmp_path / "a.replay")
    state = replica_of(folder).learner_state()
    other = replica_of(folder, target_return=-7.0)
    other.load_learner_state(state)
    assert float(other.agent.normaliser.target) == -7.0


def test_episodes_of_another_task_are_refused_with_both(tmp_path):
    with pytest.raises(UsageError, match=r"action float32\[1\], line has|has obs .*, ant has obs float32\[60\]"):
        config = RunConfig(learner=SequenceConfig(data=walked(tmp_path / "a.replay"), **SMALL))
        from gmi_drl.workload import TASK_SPECS

        SequenceReplica(TASK_SPECS["ant"], config, NoReduction(), AloneLink(), device=CPU)
