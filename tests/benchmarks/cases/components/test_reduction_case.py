import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.components import reduction
from gmi_drl.benchmarks.runner import run_case


@two_cores
def test_both_reductions_are_measured_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    case = reduction._case(10_000, reduces=40)
    result = run_case(case, repeats=2, quick=True)
    assert list(result.samples) == ["shared memory", "gloo"] and case.name == "reduction_10k"
    assert all(0 < sample.value < 1 for column in result.samples.values() for sample in column)
    with pytest.raises(KeyboardInterrupt), case.open(True):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir()) and not children_of(os.getpid())
