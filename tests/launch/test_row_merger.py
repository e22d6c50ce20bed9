import pytest

from gmi_drl.launch.row_merger import EPISODES_AVERAGED, RowMerger

PHASES = {"sim_s": 1.0, "act_s": 0.5, "learn_s": 2.0, "sync_s": 0.0}


def row(gmi, iteration, **more):
    group = {"reward_mean": 0.1, "episodes": 0.0, "return_sum": 0.0, "length_sum": 0.0} if gmi == 0 else {}
    counts = {"iteration": iteration, "env_steps": 64 * iteration, "clock_s": 1000.0 + 4.0 * iteration}
    return {"gmi": gmi, **counts, **PHASES, **group, **more}


def test_a_row_is_merged_when_all_gmis_have_sent_theirs():
    merger = RowMerger(2, 64)
    assert merger.add(1, row(1, 1, sim_s=3.0)) == []
    (merged,) = merger.add(0, row(0, 1))
    assert merged["sim_s"] == 2.0 and merged["collect_s"] == 2.5 and merged["env_steps"] == 64
    assert merged["gmis"]["1"]["sim_s"] == 3.0 and not {"gmi", "clock_s"} & {*merged, *merged["gmis"]["0"]}
    assert merged["return_mean"] is None
    assert merged["steps_per_second"] == pytest.approx(64 / 4.5)


def test_a_lost_row_does_not_hold_up_the_rest():
    merger = RowMerger(2, 64)
    rows = [merged for i in (1, 2, 3) for merged in merger.add(0, row(0, i))]
    assert [merged["iteration"] for merged in rows] == [1]
    assert [merged["iteration"] for merged in merger.add(1, row(1, 3))] == [3]


def test_returns_are_means_over_the_last_hundred_episodes():
    merger = RowMerger(1, 64)
    merger.add(0, row(0, 1, episodes=100.0, return_sum=0.0, length_sum=100.0))
    (merged,) = merger.add(0, row(0, 2, episodes=50.0, return_sum=500.0, length_sum=5000.0))
    assert merged["return_mean"] == pytest.approx(500 / 150) and merged["episode_length_mean"] == pytest.approx(34.0)
    (merged,) = merger.add(0, row(0, 3, episodes=50.0, return_sum=500.0, length_sum=5000.0))
    assert merged["return_mean"] == 10.0 and merged["episode_length_mean"] == 100.0
    assert (merged["episodes"], merged["return_sum"]) == (50, 500)  # those that ended in this iteration


def test_a_run_that_goes_on_has_the_means_of_one_that_was_not_interrupted():
    rows = [row(0, i, episodes=30.0, return_sum=float(i), length_sum=30.0 * i) for i in range(1, 7)]
    whole, first, second = (RowMerger(1, 64) for _ in range(3))
    merged = [whole.add(0, one)[0] for one in rows]
    second.recall([first.add(0, one)[0] for one in rows[:4]])
    after = [second.add(0, one)[0] for one in rows[4:]]
    means = ("return_mean", "episode_length_mean")
    assert [[one[name] for name in means] for one in after] == [[one[name] for name in means] for one in merged[4:]]
    second.recall([{"iteration": 1}, {"iteration": 2, "episodes": None, "return_sum": 1.0, "length_sum": 2.0}])


def test_of_a_long_run_only_the_last_episodes_are_recalled():
    merger = RowMerger(1, 64)
    merger.recall([row(0, i, episodes=30.0, return_sum=float(i), length_sum=30.0) for i in range(1, 1000)])
    assert [returns for _, returns, _ in merger._episodes] == [996, 997, 998, 999]


def test_speed_is_by_the_clock_of_the_gmis_whenever_their_rows_are_read():
    """A launcher that was stopped reads them all at once."""
    merger = RowMerger(1, 64)
    speeds = [merged["steps_per_second"] for i in (1, 2, 3) for merged in merger.add(0, row(0, i))]
    assert speeds == [pytest.approx(64 / 3.5), 16.0, 16.0]  # the first has only its phases


def test_the_row_after_lost_ones_has_the_speed_of_all_iterations_since():
    merger = RowMerger(1, 64)
    speeds = [merged["steps_per_second"] for i in (1, 5, 6) for merged in merger.add(0, row(0, i))]
    assert speeds[1:] == [16.0, 16.0]


def test_the_seconds_of_an_evaluation_do_not_count():
    merger = RowMerger(1, 64)
    merger.add(0, row(0, 1))
    (merged,) = merger.add(0, row(0, 2, eval_s=2.0))
    assert merged["steps_per_second"] == 32.0


def test_a_row_that_comes_after_later_ones_is_left_out():
    merger = RowMerger(2, 64)
    rows = [
        merged
        for gmi, i in ((0, 1), (1, 1), (0, 5), (1, 5), (0, 3), (0, 6), (1, 6))
        for merged in merger.add(gmi, row(gmi, i))
    ]
    assert [merged["iteration"] for merged in rows] == [1, 5, 6]


def test_rows_without_ended_episodes_are_not_gathered():
    merger = RowMerger(1, 64)
    merger.add(0, row(0, 1, episodes=1.0, return_sum=5.0, length_sum=7.0))
    for i in range(2, 3 * EPISODES_AVERAGED):
        (merged,) = merger.add(0, row(0, i))
    assert merged["return_mean"] == 5.0 and merged["episode_length_mean"] == 7.0
    assert len(merger._episodes) <= EPISODES_AVERAGED


def test_utilisation_is_of_the_time_since_the_row_before_but_never_of_loading():
    asked = []
    merger = RowMerger(1, 64, lambda since, until: asked.append((since, until)) or {"gpu0": {"sm_util": 5.0}})
    rows = [merged for i in (1, 2) for merged in merger.add(0, row(0, i))]
    rows += [merged for i in range(3, 6) for merged in merger.add(0, row(0, i, clock_s=1008.0 + 0.25 * (i - 2)))]
    assert asked[:2] == [(1000.5, 1004.0), (1004.0, 1008.0)]  # the first began when its phases did
    assert asked[2:] == [(1007.25, 1008.25), (1007.5, 1008.5), (1007.75, 1008.75)]  # a second, where rows are quicker
    assert all(merged["devices"] == {"gpu0": {"sm_util": 5.0}} for merged in rows)


def test_without_utilisation_there_are_no_devices():
    (merged,) = RowMerger(1, 64).add(0, row(0, 1))
    assert "devices" not in merged
