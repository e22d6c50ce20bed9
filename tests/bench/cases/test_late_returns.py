import pytest

from gmi_drl.bench.case import CURVES
from gmi_drl.bench.cases import late_returns
from gmi_drl.errors import GmiError
from gmi_drl.run.metrics import PHASES


def test_only_the_last_steps_count_and_updates_without_an_episode_have_no_return():
    told = {100: None, 500: 0.0, 850: 90.0, 950: 1.0, 1000: 3.0}
    row = {"steps_per_second": 50.0, **dict.fromkeys(PHASES, 0.5)}
    sample = late_returns.of_rows(7, [{**row, "env_steps": steps, "return_mean": mean} for steps, mean in told.items()])
    steps, _, returns = sample.details[CURVES].values()
    assert sample.value == 2.0 and sample.details["seed"] == 7
    assert steps == [500, 850, 950, 1000] and returns == [0.0, 90.0, 1.0, 3.0]


def test_a_training_without_an_episode_is_an_error():
    with pytest.raises(GmiError, match="no episode ended"):
        late_returns.of_told([(100, 1.0, None)], {})
