"""Trainers with rings of the rollouts of agents on GMIs of their own, as processes."""

from conftest import tiny_config, two_cores

from gmi_drl.config.learners import SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.gmi.inventory import this_node
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.cut import Cut
from gmi_drl.roles.serving.player import load_agent
from gmi_drl.run.checkpoint import list_checkpoints, read_part
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.templates import Decoupled
from gmi_drl.workload import TASK_SPECS

SPEC = TASK_SPECS["ball_balance"]
REPLAY = ReplaySettings(size=2000, min_size=100, sampler="prioritized")
SMALL = SACConfig(hidden=(8,), horizon=4, batch=16, replay=REPLAY)


@two_cores
def test_two_trainers_learn_alike_from_rollouts_and_go_on_with_their_rings(tmp_path):
    """Every checkpoint compares the learners of both."""
    layout = Decoupled(2).lay_out(SPEC, this_node(), Cut(4, 8, share_cores=True))
    folder, resume = RunFolder(tmp_path / "run"), None
    folder.create()
    for iterations in (3, 5):
        job = resolve(layout, tiny_config(iterations=iterations, learner=SMALL), folder)
        resume = train(job, resume=resume).checkpoint
    rows = read_metrics(folder.metrics_file)
    assert [row["replay_steps"] for row in rows] == [2 * 8 * (5 * iteration - 1) for iteration in range(1, 6)]
    assert [row["updates"] for row in rows] == [0, 4, 8, 12, 16]
    assert all("replay_age_mean" in row for row in rows[1:]) and rows[-1]["env_steps"] == 2 * 8 * 4 * 5
    for trainer in layout.with_role("trainer"):
        assert len(read_part(list_checkpoints(folder.checkpoints)[-1], f"gmi-{trainer.id}")["ring.rows.step"]) == 8 * 25
    assert load_agent(folder, SPEC, folder.read_setup()[1]).iteration == 5
