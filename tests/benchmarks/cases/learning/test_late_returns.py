import pytest

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.learning import late_returns
from gmi_drl.errors import GmiError
from gmi_drl.launch.row_merger import EPISODES_AVERAGED, RowMerger
from gmi_drl.run.phases import PHASE_NAMES


def merged(*told):
    """The metrics of iterations of 100 steps, each told as its number of episodes and the mean return of these."""
    merger, rows = RowMerger(1, 100), []
    for iteration, (episodes, mean) in enumerate(told, 1):
        group = {"episodes": episodes, "return_sum": episodes * mean, "length_sum": 0.0, "reward_mean": 0.0}
        counts = {"iteration": iteration, "env_steps": 100 * iteration, "clock_s": 2.0 * iteration}
        row = {**counts, **group, **dict.fromkeys(PHASE_NAMES, 0.5)}
        rows += merger.add(0, row)
    return rows


def test_only_episodes_that_ended_late_count_each_as_much_as_another():
    early = [(1.0, -500.0)] * 36
    rows = merged(*early, (0.0, 0.0), (3.0, 2.0), (1.0, 10.0), (0.0, 0.0))
    assert len(rows) == 40 < EPISODES_AVERAGED and rows[-1]["return_mean"] < 0  # the moving mean is of early ones
    sample = late_returns.of_rows(7, rows)
    assert sample.value == (3 * 2 + 10) / 4 and sample.details["seed"] == 7
    steps, _, returns = sample.details[CURVES].values()
    assert steps[-3:] == [3600, 3800, 3900] and returns[-3:] == [-500.0, 2.0, 10.0]


def test_a_training_without_a_late_episode_is_judged_by_its_last_ones():
    rows = merged((1.0, 1.0), (2.0, 5.0), *[(0.0, 0.0)] * 18)
    assert late_returns.of_rows(1, rows).value == 5.0


def test_a_training_without_an_episode_is_an_error():
    with pytest.raises(GmiError, match="no episode ended in the 200 steps"):
        late_returns.of_rows(1, merged((0.0, 0.0), (0.0, 0.0)))
