import pytest

from gmi_drl.launch.rows import RowMerger

PHASES = {"sim_s": 1.0, "act_s": 0.5, "learn_s": 2.0, "sync_s": 0.0}


def row(gmi, iteration, **more):
    group = {"reward_mean": 0.1, "episodes": 0.0, "return_sum": 0.0, "length_sum": 0.0} if gmi == 0 else {}
    return {"gmi": gmi, "kind": "row", "iteration": iteration, "env_steps": 64 * iteration, **PHASES, **group, **more}


def test_a_row_is_merged_when_all_gmis_have_sent_theirs():
    merger = RowMerger(2, 64)
    assert merger.add(1, row(1, 1, sim_s=3.0)) == []
    (merged,) = merger.add(0, row(0, 1))
    assert merged["sim_s"] == 2.0 and merged["collect_s"] == 2.5 and merged["env_steps"] == 64
    assert merged["gmis"]["1"]["sim_s"] == 3.0 and "kind" not in merged
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
