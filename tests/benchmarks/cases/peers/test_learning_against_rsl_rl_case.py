import os

import pytest
from conftest import children_of

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.peers import learning_against_rsl_rl as case
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import GmiError
from gmi_drl.gmi import ProcessBackend
from gmi_drl.gmi.inventory import this_node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.environment import KEEP_FREED_MEMORY
from gmi_drl.templates import TCG_EX
from gmi_drl.workload import TASK_SPECS

CASE = case.CASE
needs_rsl_rl = pytest.mark.skipif(CASE.obstacle() is not None, reason=str(CASE.obstacle()))


@needs_rsl_rl
def test_both_sides_take_the_same_seed_and_steps(monkeypatch):
    monkeypatch.setattr(case, "NUM_ENV", 32)
    monkeypatch.setattr(case, "QUICK_STEPS", 12_000)
    result = run_case(CASE, repeats=1, quick=True)
    assert list(result.samples) == ["gmi-drl", "rsl_rl"]
    for (sample,) in result.samples.values():
        assert sample.details["seed"] == 1 and sample.details["env_steps"] == 12_288
        assert all(sample.details[phase] > 0 for phase in ("sim_s", "act_s", "learn_s"))
        steps, seconds, returns = sample.details[CURVES].values()
        assert len(steps) == len(seconds) == len(returns) and seconds == sorted(seconds)
    assert not children_of(os.getpid())


@needs_rsl_rl
def test_a_failure_shows_the_log_and_an_early_end_leaves_no_process(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))[:1]
    order = {"parent": os.getpid(), "cpus": cpus, "seed": 1, "num_env": 16, "iterations": 1000}
    with pytest.raises(GmiError, match=r"exited with code 1(.|\n)*num_env and threads must be at least 1"):
        list(case.reported({**order, "num_env": 0}, tmp_path / "log"))
    rows = case.reported(order, tmp_path / "log")
    assert next(rows)["env_steps"] == 16 * 16
    rows.close()
    assert not children_of(os.getpid())


@needs_rsl_rl
def test_silence_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(case, "SILENCE_S", 0.01)
    order = {"parent": os.getpid(), "cpus": [0], "seed": 1, "num_env": 16, "iterations": 1}
    with pytest.raises(GmiError, match="printed nothing"):
        list(case.reported(order, tmp_path / "log"))
    assert not children_of(os.getpid())


def test_both_sides_have_the_same_allocator(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "4096")
    layout = TCG_EX.lay_out(TASK_SPECS["ant"], this_node().model_copy(update={"gpus": None}), Cut(1, 16))
    with ProcessBackend().cut(layout) as instances:
        ours, theirs = instances.environment(0), case.environment()
    assert all(ours[name] == theirs[name] for name in KEEP_FREED_MEMORY)
    assert theirs["MALLOC_MMAP_THRESHOLD_"] == "4096" and "GOMP_SPINCOUNT" not in theirs
