from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.components import physics
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.workload import TASK_SPECS


def test_every_task_has_a_curve():
    result = run_case(physics.CASE, repeats=1, quick=True)
    assert list(result.samples) == list(TASK_SPECS) and not result.ratios
    for (sample,) in result.samples.values():
        worlds, speeds = sample.details[CURVES].values()
        assert worlds == [8, 16] and sample.value == max(speeds) and min(speeds) > 0
