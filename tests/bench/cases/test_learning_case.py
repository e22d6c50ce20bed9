import pytest

from gmi_drl.bench.cases import learning
from gmi_drl.bench.runner import run_case
from gmi_drl.errors import GmiError
from gmi_drl.run.metrics import PHASES


def test_a_training_is_measured_with_its_curves(monkeypatch):
    monkeypatch.setattr(learning, "NUM_ENV", 8)
    monkeypatch.setattr(learning, "QUICK_SECONDS", 1.0)
    (sample,) = run_case(learning.CASES[0], repeats=1, quick=True).samples["gmi-drl"]
    steps, seconds, returns = sample.details["curves"].values()
    assert sample.details["seed"] == 1 and sample.value == returns[-1] and sample.details["sim_s"] > 0
    assert len(steps) == len(seconds) == len(returns) and steps[-1] == sample.details["env_steps"]


def test_time_adds_up_and_iterations_without_an_episode_have_no_return():
    row = {"steps_per_second": 50.0, **dict.fromkeys(PHASES, 0.5)}
    with pytest.raises(GmiError, match="no episode ended"):
        learning.summarise(7, [{**row, "env_steps": 100, "return_mean": None}])
    rows = [{**row, "env_steps": 100 * i, "return_mean": mean} for i, mean in enumerate([None, 1.0, 3.0], 1)]
    sample = learning.summarise(7, rows)
    assert sample.value == 3.0 and sample.details["sim_s"] == 0.5
    assert list(sample.details["curves"].values()) == [[200, 300], [4.0, 6.0], [1.0, 3.0]]
