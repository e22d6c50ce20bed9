"""Trainings of real processes by actor, policy and trainer workers."""

from dataclasses import replace

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.launch.job import resolve, wait_mistakes, world_mistakes
from gmi_drl.launch.training import train
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.run.verdict import verdict
from gmi_drl.workload import TASK_SPECS

NUM_ENV, HORIZON, ITERATIONS, LAG = 4, 8, 4, 1


def layout_of(*roles):
    gmis = tuple(
        GMI(id=number, roles=some, cores=(0,), **({"num_env": NUM_ENV, "ring": 2} if "simulator" in some else {}))
        for number, some in enumerate(roles)
    )
    return Layout(
        task="ball_balance",
        template="workers",
        share_cores=True,
        devices=(Device(kind="cpu", gmis=gmis),),
        groups={"trainers": GmiGroup(members=(len(gmis) - 1,))},
        channels=Channels(max_lag=LAG),
        streams=Streams(wait_ms=1.0, most_rows=3),
    )


def test_what_the_run_or_the_task_does_not_allow_is_refused_before_anything_starts(tmp_path):
    folder, layout = RunFolder(tmp_path / "run"), layout_of(("simulator",), ("agent",), ("trainer",))
    with pytest.raises(UsageError, match=r"wait_ms is 1, and hang_s 0\.001"):
        resolve(layout, RunConfig(hang_s=0.001), folder)
    (mistake,) = world_mistakes(layout, replace(TASK_SPECS["ant"], agents=3))
    assert mistake.endswith("GMI 0 has 2 in each part: give each 3")


def test_looking_for_long_beside_hang_s_is_refused():
    layout, config = layout_of(("simulator",), ("agent",), ("trainer",)), RunConfig(hang_s=0.3)
    assert wait_mistakes(layout.model_copy(update={"streams": Streams(spin_us=30_000)}), config) == []
    (mistake,) = wait_mistakes(layout.model_copy(update={"streams": Streams(spin_us=4e6)}), config)
    told = "a silence is told that much later: at most 30000, 0.1 of hang_s"
    assert mistake == f"streams.spin_us is 4e+06, and hang_s 0.3: {told}"
    assert wait_mistakes(layout.model_copy(update={"streams": None}), config) == []


@pytest.mark.starts_gmis
def test_actors_with_and_without_an_agent_train_together(tmp_path):
    """One asks the policy worker, the other has its own agent. Both keep to the lag."""
    learner = PPOConfig(hidden=(8,), horizon=HORIZON, minibatches=1, epochs=2)
    config = RunConfig(iterations=ITERATIONS, checkpoint_every=ITERATIONS, hang_s=60.0, learner=learner)
    folder = RunFolder(tmp_path / "run")
    folder.create()
    layout = layout_of(("simulator",), ("simulator", "agent"), ("agent",), ("trainer",))
    outcome = train(resolve(layout, config, folder))
    rows = read_metrics(folder.metrics_file)
    assert outcome.state == "done" and len(rows) == ITERATIONS
    assert rows[-1]["env_steps"] == ITERATIONS * 2 * NUM_ENV * HORIZON
    assert 0 <= max(row["lag_max"] for row in rows) <= LAG
    for row in rows:
        assert 2 <= row["rows"] <= row["rows_p95"] <= NUM_ENV
        assert 0 < row["answer_p50_s"] <= row["answer_p99_s"]
        assert row["training_frames_per_second"] == row["training_samples_per_second"] > 0
        assert 0 < row["answers_wait_s"] <= row["act_s"] and row["requests_wait_s"] > 0 <= row["versions_wait_s"]
    assert verdict(rows).count("actors wait") == 1
