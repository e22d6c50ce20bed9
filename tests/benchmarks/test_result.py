import json
from contextlib import contextmanager
from functools import partial

import pytest

from gmi_drl.benchmarks.case import Case, Sample
from gmi_drl.benchmarks.result import load_result, write_result
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import UsageError
from tests.benchmarks.toy import toy_case


@pytest.fixture
def result():
    return run_case(toy_case(), repeats=2)


def test_what_is_written_is_read_back(result, tmp_path):
    path = tmp_path / "toy.json"
    write_result(result, path)
    assert load_result(path) == result
    assert json.loads(path.read_text())["schema"] == "gmi-drl/bench/1"
    assert result.command == "gmi-drl bench toy --repeats 2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("machine"), "machine: missing"),
        (lambda document: document.update(sampels={}), "sampels: unknown key; did you mean 'samples'"),
        (lambda document: document.update(schema="gmi-drl/bench/2"), "schema"),
        (lambda document: document["samples"].update(ours=[]), "samples.ours"),
        (lambda document: document["ratios"].update(strangers=document["ratios"]["theirs"]), "do not match"),
    ],
)
def test_mistakes_are_named(result, tmp_path, change, message):
    document = result.document()
    change(document)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"bad\.json") as error:
        load_result(path)
    assert message in str(error.value)


def test_what_is_no_json_is_refused(tmp_path):
    (tmp_path / "cut.json").write_text('{"schema": ')
    with pytest.raises(UsageError, match=r"cut\.json: not a result"):
        load_result(tmp_path / "cut.json")
    with pytest.raises(UsageError, match=r"none\.json: no such file"):
        load_result(tmp_path / "none.json")


def activity_case(**more):
    """Sides whose samples say which part of the SMs had work."""
    columns = {"one": (10.0, 40.0), "two": (15.0, 70.0)}

    @contextmanager
    def open_sides(quick):
        yield {name: partial(Sample, value, {"sm_util": used}) for name, (value, used) in columns.items()}

    return Case("busy", "A toy for tests.", "steps/s", open_sides, **more)


def test_the_activity_gained_is_beside_a_ratio():
    result = run_case(activity_case(), repeats=2)
    assert [result.gained(side) for side in ("one", "two")] == ["", "-30.0 points"] and result.knows_activity
    assert result.against_title == "our ratio to it" and result.ratios["two"].median == pytest.approx(2 / 3)


def test_ratios_to_a_baseline_are_those_of_the_others():
    result = run_case(activity_case(is_baseline_first=True), repeats=2)
    assert result.ratios["two"].median == 1.5 and result.gained("two") == "+30.0 points"
    assert result.against_title == "its ratio to one"
    assert result.below(2) == ["busy: two: 1.50x (range 1.50-1.50) of one is below 2"]


def test_without_gpus_nothing_is_gained(result):
    assert not result.knows_activity and result.gained("theirs") == ""
