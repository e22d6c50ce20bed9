"""SRL's Table 1 in kind: equal samples of every shape, environments that sleep, one short training of a side."""

import time

import gymnasium
import pytest

from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.common import sleeping
from gmi_drl.benchmarks.cases.common.shapes import PeerShape, Shape, climbed
from gmi_drl.benchmarks.cases.peers.srl_table_1 import (
    COLUMNS,
    PONG,
    QUICK_SAMPLES,
    QUICK_SECONDS,
    SWEEP_S,
    SWEEP_UPDATES,
    weights_of,
    worker_layout,
)
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
        own = {(gmi.cores, gmi.torch_threads) for gmi in layout.gmis}
        assert own == ({((0, 1), 1)} if layout.share_cores else {((0,), 1), ((1,), 1)})


def test_cases_are_found_by_their_columns():
    assert find_case("srl_table_1").unit == "frames/s" and find_case("srl_table_1_smac_like")
    assert PONG.frames == 4
    assert [name for name, (column, _, _) in COLUMNS.items() if column.is_bounded] == ["", "_half_cheetah"]


def test_all_numbers_of_environments_are_tried_and_the_others_rise_until_the_rate_stops_growing():
    asked = []

    def rate(shape):
        asked.append((shape.num_env, shape.runners, shape.learners))
        return min(shape.runners, 3) + {8: 0.1, 16: 0.0, 32: 0.2, 64: 0.1}[shape.num_env] - 0.1 * shape.learners

    choices = {"num_env": (8, 16, 32, 64), "runners": (1, 2, 3, 4, 5), "learners": (1, 2)}
    best, rates = climbed(PeerShape(8), choices, rate)
    assert best == PeerShape(32, 3)
    tried = [(num_env, 1, 1) for num_env in (8, 16, 32, 64)]
    assert asked == [*tried, (32, 2, 1), (32, 3, 1), (32, 4, 1), (32, 3, 2)]
    assert len(rates) == len(asked) and rates[str(best)] == max(rates.values())


def test_a_sweep_has_time_for_the_updates_of_environments_that_sleep():
    column = COLUMNS["_football_like"][0]
    update_s = column.samples * sleeping.FRAME_S[column.env_id] / 2
    assert column.sweep_s(2) == pytest.approx(SWEEP_UPDATES * update_s) and column.sweep_s(2) > SWEEP_S
    assert column.sweep_s(8) == PONG.sweep_s(1) == SWEEP_S


def test_one_actor_has_three_updates_of_tiny_sizes_though_its_environments_sleep():
    assert 3 * QUICK_SAMPLES * max(sleeping.FRAME_S.values()) < QUICK_SECONDS


@pytest.mark.starts_gmis
def test_workers_with_remote_inference_train():
    with find_case("srl_table_1_half_cheetah").open(True) as sides:
        sample = sides["workers, remote"]()
    assert sample.value > 0 and sample.details["rows"] == 8 and sample.details["cpu_s_per_million_steps"] > 0
    column, _, _ = COLUMNS["_half_cheetah"]
    assert sample.details["weights"] == weights_of(column, column.config(16)) > 0


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
