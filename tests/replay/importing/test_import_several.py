"""Episodes of two tasks in one folder, and one sequence policy that learns both."""

import json

import pytest
import torch

from gmi_drl.comm.links.alone import AloneLink
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import SequenceConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_names import with_arguments
from gmi_drl.errors import UsageError
from gmi_drl.replay import EpisodeSet, import_episodes, import_several
from gmi_drl.roles.sequence.replica import SequenceReplica
from gmi_drl.roles.training.evaluation import play_episodes
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

LENGTHS, TASKS = (5, 9, 7), ("ball_balance", "ant")
CPU = torch.device("cpu")


def made(task, folder, *, knows_last=True, reward=1.0):
    spec, draw = TASK_SPECS[task], torch.Generator().manual_seed(len(task))
    episodes = [
        {
            "obs": torch.randn(length + knows_last, spec.observation.size, generator=draw),
            "action": 2 * torch.rand(length, spec.action.size, generator=draw) - 1,
            "reward": torch.full((length,), reward),
        }
        for length in LENGTHS
    ]
    import_episodes(iter(episodes), folder)
    return folder


@pytest.fixture
def both(tmp_path):
    folders = {
        "ball_balance": made("ball_balance", tmp_path / "balls.replay", reward=2.0),
        "ant": made("ant", tmp_path / "ants.replay", knows_last=False),
    }
    return folders, import_several(folders, tmp_path / "both.replay"), tmp_path / "both.replay"


def test_episodes_are_padded_and_the_best_return_of_each_task_is_1(both):
    folders, task, folder = both
    sets, together = [EpisodeSet(one) for one in folders.values()], EpisodeSet(folder)
    assert task == "several:ball_balance+ant" + json.dumps({"units": [18.0, 9.0]})
    assert together.lengths.tolist() == [*LENGTHS, *LENGTHS]
    assert together.returns.tolist() == pytest.approx([5 / 9, 1.0, 7 / 9] * 2)
    assert together.knows_last.tolist() == [True] * 3 + [False] * 3
    rows = together.storage.rows.fields
    for number, one in enumerate(sets):
        for episode, length in enumerate(LENGTHS):
            at, own = int(together.first[3 * number + episode]), int(one.first[episode])
            for name, begin in (("obs", sets[0].storage.rows.fields["obs"].shape[1] * number), ("action", 0)):
                wanted = one.storage.rows.fields[name][own : own + length]
                end = begin + wanted.shape[1]
                assert torch.equal(rows[name][at : at + length, begin:end], wanted)
                others = rows[name][at : at + length, : -2 if name == "obs" else None]
                assert not others[:, :begin].any() and not others[:, end:].any()
            assert rows["obs"][at, -2:].tolist() == [1.0 - number, float(number)]


def test_one_policy_learns_both_and_plays_each(both):
    _, name, folder = both
    task = make(name, num_env=4, seed=0)
    small = SequenceConfig(data=str(folder), width=16, heads=2, layers=1, context=3, horizon=2, updates=30, batch=16)
    replica = SequenceReplica(task.spec, RunConfig(learner=small), NoReduction(), AloneLink(), device=CPU)
    replica.attach_task(task, seed=1)
    losses = []
    for _ in range(3):
        replica.iterate(lambda: Decision.GO_ON)
        losses.append(replica.metrics()["action_loss"])
    assert losses[2] < 0.9 * losses[0]
    for number, one in enumerate(TASKS):
        alone = make(with_arguments(name, [f"only={one}"]), num_env=2, seed=0)
        assert int(alone.obs[0, -2:].argmax()) == number
        episodes, returns, _ = play_episodes(alone, replica.policy()).tolist()
        assert episodes == 2 and abs(returns) > 0
        alone.close()
    replica.close()
    task.close()


def test_what_cannot_be_one_folder_is_named(tmp_path):
    balls, ants = made("ball_balance", tmp_path / "balls.replay", reward=-1.0), made("ant", tmp_path / "ants.replay")
    with pytest.raises(UsageError, match="two at least, not 1"):
        import_several({"ball_balance": balls}, tmp_path / "a.replay")
    with pytest.raises(UsageError, match=r"best episodes have a return of -5, which cannot be scaled to 1"):
        import_several({"ball_balance": balls, "ant": ants}, tmp_path / "a.replay")
    import_episodes(iter([{"action": torch.zeros(3, 2), "reward": torch.ones(3)}]), tmp_path / "blind.replay")
    with pytest.raises(UsageError, match=r"blind\.replay has no obs"):
        import_several({"a": tmp_path / "blind.replay", "b": ants}, tmp_path / "a.replay")
    assert not (tmp_path / "a.replay").exists()
