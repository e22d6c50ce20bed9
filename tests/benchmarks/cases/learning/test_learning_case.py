import statistics

import pytest

from gmi_drl.benchmarks.cases.learning import learning
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.run.phases import PHASE_NAMES


def test_a_training_is_measured_with_its_curves_and_played_before_and_after(monkeypatch):
    monkeypatch.setattr(learning, "NUM_ENV", 8)
    monkeypatch.setattr(learning, "QUICK_STEPS", 2000)
    (sample,) = run_case(learning.CASES[0], repeats=1, quick=True).samples["gmi-drl"]
    steps, seconds, rewards = sample.details["curves"].values()
    assert sample.details["seed"] == 1 and sample.details["sim_s"] > 0
    assert len(steps) == len(seconds) == len(rewards) and steps[-1] == sample.details["env_steps"]
    assert 2000 <= steps[-1] < 2000 + steps[0]
    assert sample.value != sample.details["untrained"]
    assert sample.details["trained_median"] == pytest.approx(sample.value)  # of two worlds


def test_seconds_add_up():
    rows = [
        {"steps_per_second": speed, "env_steps": 100 * i, **dict.fromkeys(PHASE_NAMES, 0.5)}
        for i, speed in [(1, 50.0), (2, 25.0)]
    ]
    assert learning.wall_s(rows) == [2.0, 6.0]
    details = learning.phases_of(rows)
    assert details["training_s"] == 6.0 and details["env_steps"] == 200 and details["sim_s"] == 0.5


def test_an_untrained_ant_earns_what_it_earns_in_whole_episodes():
    from gmi_drl.config.run_config import default_config
    from gmi_drl.roles.serving.player import initial_agent
    from gmi_drl.workload import TASK_SPECS

    agent = initial_agent(TASK_SPECS["ant"], default_config(TASK_SPECS["ant"]))
    first, again = (learning.play("ant", agent, 2) for _ in range(2))
    assert (
        len(first) == 2 and first == pytest.approx(again) and statistics.fmean(first) > 400
    )  # 0.6 for each of 1000 steps in which it stands
