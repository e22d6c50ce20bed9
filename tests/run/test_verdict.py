import pytest

from gmi_drl.run.verdict import NOTHING, seconds_left, shares_of, verdict


def row(sim, act, learn, wait, iteration=1, **more):
    phases = {"sim_s": sim, "act_s": act, "learn_s": learn, "sync_s": wait}
    return {"iteration": iteration, "env_steps": 100 * iteration, "steps_per_second": 50.0, **phases, **more}


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ((6, 1, 2, 1), "60% is the simulator"),
        ((1, 6, 2, 1), "60% is the policy's steps"),
        ((1, 1, 8, 0), "80% is learning"),
        ((4, 1, 4, 1), NOTHING),
        ((0, 0, 0, 0), ""),
    ],
)
def test_the_phase_that_takes_most_is_named(phases, words):
    assert verdict([row(*phases)]).startswith(words) and bool(verdict([row(*phases)])) == bool(words)


def test_waiting_is_named_with_the_gmi_that_the_others_wait_for():
    gmis = {"0": {"sync_s": 3.0}, "1": {"sync_s": 0.1}}
    assert verdict([row(4, 1, 2, 3, gmis=gmis)]).startswith("30% waits for other GMIs, most for GMI 1")


def test_only_the_last_rows_count():
    assert verdict([row(100, 0, 0, 0)] + [row(0, 0, 9, 1)] * 20).startswith("90% is learning")
    assert verdict([]) == "" and shares_of({}) == {}


def test_the_time_left_is_by_the_speed_of_the_last_rows():
    assert seconds_left([row(1, 1, 1, 1, iteration=4)], 10) == 12
    assert seconds_left([row(1, 1, 1, 1, iteration=10)], 10) == 0
    assert seconds_left([], 10) is None and seconds_left([row(1, 1, 1, 1) | {"steps_per_second": None}], 10) is None


def test_the_time_left_counts_slow_rows_and_evaluations_by_their_seconds():
    rows = [row(1, 1, 1, 1, iteration=1), row(1, 1, 1, 1, iteration=2, eval_s=5.0) | {"steps_per_second": 20.0}]
    assert seconds_left(rows, 4) == 2 * ((2 + 5 + 5) / 2)
