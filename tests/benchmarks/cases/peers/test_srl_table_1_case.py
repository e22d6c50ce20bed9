"""SRL's Table 1 in kind: equal samples of every shape, environments that sleep, one short training of a side."""

import time

import gymnasium
import pytest

from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.common import sleeping
from gmi_drl.benchmarks.cases.peers.srl_table_1 import COLUMNS, PONG, Shape, worker_layout
from gmi_drl.templates import WORKERS


@pytest.mark.parametrize("policies", [0, 1])
@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_every_shape_has_the_samples_of_the_column(name, policies):
    column, _, _ = COLUMNS[name]
    for shape in (Shape(8), Shape(16, 2), Shape(16, 2, 2), Shape(32, max(column.processes), 2)):
        layout, horizon = worker_layout(column, shape, policies, cores=2)
        assert WORKERS.check(layout) == []
        learner = column.config(horizon).learner
        assert learner.steps_of(layout) == column.samples and learner.minibatches == 4 and learner.epochs == 4


def test_cases_are_found_by_their_columns():
    assert find_case("srl_table_1").unit == "frames/s" and find_case("srl_table_1_smac_like")
    assert PONG.frames == 4


@pytest.mark.starts_gmis
def test_workers_with_remote_inference_train():
    with find_case("srl_table_1_half_cheetah").open(True) as sides:
        sample = sides["workers, remote"]()
    assert sample.value > 0 and sample.details["rows"] == 8 and sample.details["cpu_s_per_million_steps"] > 0


def test_environments_sleep_and_are_as_wide_as_the_games(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for name, seconds in sleeping.FRAME_S.items():
        env = gymnasium.make(f"{sleeping.__name__}:{name}")
        seen, _ = env.reset(seed=1)
        assert seen.shape == (sleeping.WIDTHS[name],) and env.action_space.n == sleeping.ACTIONS[name]
        for step in range(sleeping.EPISODE):
            *_, ended, truncated, _ = env.step(0)
            assert ended == (step == sleeping.EPISODE - 1) and not truncated
        assert slept == [seconds] * sleeping.EPISODE
        slept.clear()
