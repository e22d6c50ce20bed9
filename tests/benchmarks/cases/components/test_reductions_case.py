import os
from pathlib import Path
from statistics import median

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases import CASES
from gmi_drl.benchmarks.cases.components import reductions
from gmi_drl.benchmarks.peers import Update
from gmi_drl.benchmarks.report import load_results
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.hardware.speeds import OF_CORES
from gmi_drl.layout.reductions import by_speed

RESULTS = Path(__file__).parents[4] / "benchmarks" / "results"


@two_cores
def test_both_reductions_are_measured_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    case = reductions.case_of_two(10_000, reduces=40)
    result = run_case(case, repeats=2, quick=True)
    assert list(result.samples) == ["shared memory", "gloo"] and case.name == "reduction_10k"
    assert all(sample.value > 0 for column in result.samples.values() for sample in column)
    with pytest.raises(KeyboardInterrupt), case.open(True):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir()) and not children_of(os.getpid())


def test_a_sum_by_mpi_is_the_median_of_what_its_driver_tells(monkeypatch):
    told = [Update(count, wall_s, None) for count, wall_s in enumerate((1.0, 3.0, 5.0, 5.5, 7.5), start=1)]
    asked = []

    def train(peer, **line):
        asked.append((peer, line["driver"], line["num_env"], line["more"]))
        return told

    monkeypatch.setattr(reductions.peers, "train", train)
    sample = reductions.sample_of_mpi(100, 5)
    assert sample.value == 2.0 and any(line.startswith("mpi4py==") for line in sample.details["packages"])
    assert asked == [("mpi", "reduce_mpi", 2, ["--numel", "100", "--reduces", "5"])]


@two_cores
def test_every_legal_reduction_is_measured_at_every_length(monkeypatch):
    monkeypatch.setattr(reductions, "NUMELS", (100, reductions.SHOWN_NUMEL))
    monkeypatch.setattr(reductions, "REDUCES", (8, 8))
    case = CASES["reductions_1_1"]
    result = run_case(case, repeats=1, quick=True)
    assert next(iter(result.samples)) == "MPR-shm" and list(result.samples)[-1] == reductions.FREE_GLOO
    assert {"MPR-gloo", "MRR", "HAR", "SHARD"} < result.samples.keys()
    for (sample,) in result.samples.values():
        assert 0 < sample.value == pytest.approx(sample.details[CURVES]["ms"][1] / 1000)
    assert not children_of(os.getpid())


def test_shapes_are_all_ways_in_which_two_to_four_gmis_are_on_devices():
    assert {count: sum(sum(shape) == count for shape in reductions.SHAPES) for count in (2, 3, 4)} == {2: 2, 3: 3, 4: 5}
    assert reductions.mapping_of((1, 3)) == [[0], [1, 2, 3]]
    assert all(reductions.name_of(shape) in CASES for shape in reductions.SHAPES)


@pytest.mark.parametrize("shape", reductions.SHAPES, ids=str)
def test_the_models_choice_is_within_a_tenth_of_the_fastest_that_was_measured(shape):
    samples = load_results(RESULTS)[reductions.name_of(shape)].samples
    rounds = {name: [sample.details[CURVES]["ms"] for sample in some] for name, some in samples.items()}
    times = {name: [median(column) for column in zip(*rows, strict=True)] for name, rows in rounds.items()}
    for place, numel in enumerate(reductions.NUMELS):
        (_, choice), *_ = by_speed(reductions.mapping_of(shape), 4 * numel, OF_CORES, "cpu", "x86_64")
        assert times[choice.name][place] <= 1.1 * min(row[place] for row in times.values())
