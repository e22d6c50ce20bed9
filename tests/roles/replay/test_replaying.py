"""Two GMIs that learn one policy from rings of their own, in real processes."""

import pytest
import torch
from conftest import tiny_config, tiny_layout, two_cores

from gmi_drl.config.learners import SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels
from gmi_drl.roles.serving.player import Player, load_agent
from gmi_drl.run.checkpoint import list_checkpoints, read_index, read_part
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS

REPLAY = ReplaySettings(size=2000, min_size=100, sampler="prioritized")
SMALL = SACConfig(hidden=(8,), horizon=4, batch=16, normalise=True, replay=REPLAY)


def trained(path, iterations, resume=None, saved=True, **layout):
    replay = REPLAY.model_copy(update={"saved": saved})
    config = tiny_config(iterations=iterations, learner=SMALL.model_copy(update={"replay": replay}))
    folder = RunFolder(path)
    if resume is None:
        folder.create()
    return folder, train(resolve(tiny_layout(task="ball_balance", **layout), config, folder), resume=resume)


@two_cores
def test_two_gmis_learn_alike_and_go_on_bit_identically(tmp_path):
    """Every checkpoint compares the learners of both."""
    whole, _ = trained(tmp_path / "whole", 6)
    parted, outcome = trained(tmp_path / "parted", 4)
    trained(tmp_path / "parted", 6, resume=outcome.checkpoint)
    ends = [list_checkpoints(folder.checkpoints)[-1] for folder in (whole, parted)]
    assert read_index(ends[0])["parts"] == read_index(ends[1])["parts"]
    assert "ring.rows.step" in read_part(ends[0], "gmi-1")
    (*_, row) = read_metrics(whole.metrics_file)
    assert row["updates"] == 5 * 4 and row["replay_steps"] == 2 * 8 * (6 * 4 - 1)
    spec = TASK_SPECS["ball_balance"]
    agent = load_agent(whole, spec, whole.read_setup()[1])
    player = Player(make("ball_balance", num_env=2, seed=0), agent, torch.Generator().manual_seed(0))
    player.step()
    assert agent.iteration == 6 and len(player.running()) == 2


@two_cores
def test_rings_are_dealt_out_anew_to_other_gmis(tmp_path):
    folder, outcome = trained(tmp_path / "run", 3)
    trained(tmp_path / "run", 4, resume=outcome.checkpoint, gmis=1, num_env=16)
    steps = [row["replay_steps"] for row in read_metrics(folder.metrics_file)]
    assert steps == [16 * (4 * iteration - 1) for iteration in (1, 2, 3, 4)]


@pytest.mark.parametrize("saved", [True, False])
def test_a_resumed_run_says_how_rings_go_on(saved):
    from gmi_drl.cli.train.resume import _rings_told

    replay = REPLAY.model_copy(update={"saved": saved})
    config, layout = tiny_config(learner=SMALL.model_copy(update={"replay": replay})), tiny_layout()
    same, other = (_rings_told(config, layout, {"layout": digest}, layout) for digest in (layout.digest, "another"))
    assert (same is None) if saved else same.startswith("The checkpoint holds none")
    assert other.endswith("are dealt out anew, by environments" if saved else "begin empty")
    apart = layout.model_copy(update={"channels": Channels()})
    assert _rings_told(config, layout, {"layout": "another"}, apart).endswith("begin empty")
    told = _rings_told(config, apart, {"layout": "another"}, apart)
    assert told.endswith("are dealt out anew, by rollouts" if saved else "begin empty")
    assert _rings_told(tiny_config(), layout, {"layout": "another"}, layout) is None
