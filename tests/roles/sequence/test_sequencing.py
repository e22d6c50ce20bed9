"""Two GMIs that learn one sequence policy from recorded episodes of their own, in real processes."""

import shutil

import pytest
import torch
from conftest import tiny_config, tiny_layout, two_cores

from gmi_drl.config.learners import SequenceConfig
from gmi_drl.errors import UsageError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.training import train
from gmi_drl.replay import import_episodes
from gmi_drl.roles.serving.player import Player, load_agent
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS
from tests.launch.nodes.on_two import over

SPEC = TASK_SPECS["ball_balance"]
SMALL = SequenceConfig(width=8, heads=2, layers=1, horizon=4, updates=3, batch=8)


@pytest.fixture
def data(tmp_path):
    draw = torch.Generator().manual_seed(0)
    sizes = {"obs": (SPEC.observation.size,), "action": (SPEC.action.size,), "reward": ()}
    episodes = ({name: torch.rand(12, *size, generator=draw) for name, size in sizes.items()} for _ in range(6))
    import_episodes(episodes, tmp_path / "made.replay")
    return str(tmp_path / "made.replay")


def trained(path, data, iterations, resume=None, **layout):
    config = tiny_config(iterations=iterations, learner=SMALL.model_copy(update={"data": data}))
    folder = RunFolder(path)
    if resume is None:
        folder.create()
    return folder, train(resolve(tiny_layout(task="ball_balance", **layout), config, folder), resume=resume)


@two_cores
def test_two_gmis_learn_alike_and_go_on_bit_identically(tmp_path, data):
    """Every checkpoint compares the learners of both."""
    whole, _ = trained(tmp_path / "whole", data, 4)
    parted = RunFolder(tmp_path / "parted")
    parted.create()
    half = list_checkpoints(whole.checkpoints)[0]
    trained(tmp_path / "parted", data, 4, resume=shutil.copytree(half, parted.checkpoints / half.name))
    ends = [list_checkpoints(folder.checkpoints)[-1] for folder in (whole, parted)]
    assert read_index(ends[0])["parts"] == read_index(ends[1])["parts"]
    (*_, row) = read_metrics(whole.metrics_file)
    assert row["updates"] == 4 * 3 and row["action_loss"] > 0 and row["data_wait_s"] >= 0
    agent = load_agent(whole, SPEC, whole.read_setup()[1])
    player = Player(make("ball_balance", num_env=2, seed=0), agent, torch.Generator().manual_seed(0))
    for _ in range(10):
        player.step()
    assert agent.iteration == 4 and len(player.running()) == 2


@two_cores
def test_gmis_of_two_nodes_have_their_episodes_in_shards(tmp_path, data):
    config = tiny_config(iterations=2, learner=SMALL.model_copy(update={"data": data}))
    folder = RunFolder(tmp_path / "run")
    folder.create()
    layout = over("a", "b", gmis=1).model_copy(update={"task": "ball_balance"})
    outcome = train(resolve(layout, config, folder), supervisors=SubprocessSupervisors())
    assert outcome.state == "done" and [row["updates"] for row in read_metrics(folder.metrics_file)] == [3, 6]


def test_a_folder_that_is_missing_is_refused_before_anything_starts(tmp_path, data):
    with pytest.raises(UsageError, match="none is not there"):
        trained(tmp_path / "run", str(tmp_path / "none"), 1)
    with pytest.raises(UsageError, match=r"--set learner\.data=FOLDER"):
        trained(tmp_path / "other", None, 1)


def test_a_batch_with_less_than_a_context_for_each_gmi_is_refused(data):
    learner = SMALL.model_copy(update={"data": data, "batch": 1})
    (mistake,) = learner.mistakes_in(tiny_layout(task="ball_balance"))
    assert mistake == "learner.batch is 1, and 2 GMIs need a context each: make it 2 at least"
