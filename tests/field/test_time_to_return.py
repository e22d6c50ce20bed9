import pytest
import scripts  # noqa: F401  puts the scripts on the path
import time_to_return as ttr

from gmi_drl.layout.cut import Cut


@pytest.mark.parametrize(
    ("rewards", "per_iteration", "reached"),
    [
        ([3.0], ttr.WINDOW, True),  # one iteration is a window
        ([2.9], ttr.WINDOW, False),
        ([3.0], ttr.WINDOW // 2, False),  # half a window
        ([0.0, 2.0, 4.0], ttr.WINDOW // 2, True),  # the last two are 3.0 on average
        ([4.0, 0.0, 4.0], ttr.WINDOW // 2, False),
        ([3.0], 8 * ttr.WINDOW, True),
    ],
)
def test_the_goal_is_reached_by_a_window_of_samples(rewards, per_iteration, reached):
    assert ttr.has_reached(rewards, per_iteration, 3.0) is reached


def test_a_candidate_that_has_not_got_there_with_most_seeds_has_no_time():
    assert ttr.middle([5.0, None, 3.0]) == 5.0
    assert ttr.middle([None, None, 3.0]) is None and ttr.middle([]) is None
    assert ttr.middle([3.0, 4.0]) == 4.0


def test_trainings_are_kept_and_told_in_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(ttr, "RESULTS", tmp_path)
    monkeypatch.setattr(ttr, "SEEDS", (1,))
    monkeypatch.setattr(ttr, "GRID", (Cut(1, 8),))
    monkeypatch.setitem(ttr.GOALS, "ant", ttr.Goal(reward=-100.0, samples=10**9))
    ttr.learn("ant")
    ttr.learn("ant")  # knows it
    (run,) = ttr.runs("ant")
    assert run.samples == len(run.rewards) * 8 * 16 == ttr.WINDOW
    ttr.keep("ant", speeds={"1 x 8": [1.0, run.samples, 10**9]})
    assert ttr.seconds_to_goal("ant") == {Cut(1, 8): [1.0]}


def test_a_training_that_earns_too_little_ends_with_its_samples(tmp_path, monkeypatch):
    monkeypatch.setitem(ttr.GOALS, "ant", ttr.Goal(reward=10.0**6, samples=300))
    run = ttr.learned("ant", Cut(1, 8), seed=1)
    assert run.samples is None and len(run.rewards) == 3
