import subprocess
import sys

import pytest
from conftest import children_of, two_cores

from gmi_drl.bench.cases import CASES, find_case, learning, needs, reduction
from gmi_drl.bench.runner import run_case
from gmi_drl.errors import UsageError


def test_knowing_the_cases_costs_no_torch():
    code = "import sys; from gmi_drl.bench.cases import CASES; [case.obstacle() for case in CASES.values()]\n"
    code += "print([name for name in ('torch', 'mujoco', 'matplotlib', 'rsl_rl') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_names_are_keys_and_files():
    assert all(name == case.name and name.replace("_", "").isalnum() for name, case in CASES.items())
    assert find_case("ant_step") is CASES["ant_step"]
    with pytest.raises(UsageError, match="did you mean 'ant_step'"):
        find_case("ant_stp")


def test_obstacles_name_the_remedy():
    assert needs.package("torch", "x") is None and needs.cores(1) is None
    assert "pip install 'gmi-drl[peers]'" in needs.package("no_such_module", "peers")
    assert "needs 5000 cores" in needs.cores(5000)


@two_cores
def test_both_reductions_are_measured_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    case = reduction._case(10_000, reduces=40)
    result = run_case(case, repeats=2, quick=True)
    assert list(result.samples) == ["shared memory", "gloo"] and case.name == "reduction_10k"
    assert all(0 < sample.value < 1 for column in result.samples.values() for sample in column)
    with pytest.raises(KeyboardInterrupt), case.open(True):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir()) and not children_of(__import__("os").getpid())


@pytest.mark.parametrize(("name", "sides"), [("ant_step", 3), ("ppo_update", 2)])
def test_a_case_of_one_process_is_measured(name, sides, monkeypatch):
    if obstacle := CASES[name].obstacle():
        pytest.skip(obstacle)
    monkeypatch.setattr("gmi_drl.bench.cases.ant_step.NUM_ENV", 8)
    monkeypatch.setattr("gmi_drl.bench.cases.ppo_update.NUM_ENV", 8)
    result = run_case(CASES[name], repeats=1, quick=True)
    assert len(result.samples) == sides and all(spread.least > 0 for spread in result.summaries.values())


def test_a_training_is_measured_with_its_curves(monkeypatch):
    monkeypatch.setattr("gmi_drl.bench.cases.learning.NUM_ENV", 8)
    monkeypatch.setattr("gmi_drl.bench.cases.learning.QUICK_SECONDS", 1.0)
    (sample,) = run_case(learning.CASE, repeats=1, quick=True).samples["gmi-drl"]
    steps, seconds, returns = sample.details["curves"].values()
    assert sample.details["seed"] == 1 and sample.value == returns[-1] and sample.details["sim_s"] > 0
    assert len(steps) == len(seconds) == len(returns) and seconds[-1] > 0
    assert steps[-1] == sample.details["env_steps"]
