from conftest import two_cores

from gmi_drl.bench.cases import algorithm_2
from gmi_drl.bench.runner import run_case


@two_cores
def test_both_choices_come_from_the_grid_and_run(monkeypatch):
    monkeypatch.setattr(algorithm_2, "SECONDS", 0.05)
    monkeypatch.setattr("gmi_drl.profiler.probe.MEASURE_S", 0.05)
    result = run_case(algorithm_2.case("tiny", (16,), "tiny"), repeats=1, quick=True)
    shapes = [samples[0].details for samples in result.samples.values()]
    assert list(result.samples) == ["Algorithm 2", "the best of the grid"]
    assert all(shape["num_env"] in algorithm_2.QUICK_NUM_ENVS for shape in shapes)
