import pytest
from tools_project import make_project

from tools.mutants.coverage_map import CoverageMap, digests_of, measure, mirrored

FILE = "tests/test_halves.py"
HALF = f"{FILE}::test_half[half (or|and) so]"


def test_tests_are_known_by_the_lines_that_they_run_in_any_process(tmp_path):
    known = measure(make_project(tmp_path / "project"), tmp_path / "scratch", workers=1)
    assert set(known.seconds) == {HALF, f"{FILE}::test_a_process"}  # what fails says nothing
    lines = known.lines["gmi_drl/halves.py"]
    assert lines[4] == [HALF]
    assert lines[8] == [f"{FILE}::test_a_process"]
    assert lines[1] == []  # at import, which belongs to all
    assert known.stale_tests(digests_of(tmp_path / "project")) == []
    known.save(tmp_path / "map.json")
    assert CoverageMap.load(tmp_path / "map.json") == known


@pytest.fixture
def known():
    quick, slow = {f"tests/far/test_{i}.py::test": 4.0 + i for i in range(3)}, {"tests/far/test_slow.py::test": 50.0}
    near = {"test_gloo.py::test_a": 70.0, "test_b.py::test_b": 1.0, "test_b.py::test_c": 2.0}
    near = {f"tests/comm/{name}": seconds for name, seconds in near.items()}
    lines = {1: [], 5: [*slow, *quick, "tests/comm/test_b.py::test_b", "tests/comm/test_gloo.py::test_a"], 6: ["gone"]}
    return CoverageMap({"gmi_drl/comm/gloo.py": lines}, quick | slow | near)


def test_the_modules_own_tests_come_first_then_whole_files_of_its_folder_then_the_quickest(known):
    own, *others = known.tests_for("gmi_drl/comm/gloo.py", 5, most_s=20.0)
    assert own == "tests/comm/test_gloo.py::test_a"
    assert others == [
        "tests/comm/test_b.py::test_b",
        "tests/comm/test_b.py::test_c",  # shares what test_b started
        *(f"tests/far/test_{i}.py::test" for i in range(3)),
    ]


def test_a_line_that_runs_at_import_belongs_to_all_tests_of_the_module(known):
    assert known.tests_for("gmi_drl/comm/gloo.py", 1) == known.tests_for("gmi_drl/comm/gloo.py", 5)


def test_a_line_that_no_test_is_seen_to_run_belongs_to_the_modules_test_file_or_to_all_tests_of_the_module(known):
    """What a killed process has run is not known."""
    assert known.tests_for("gmi_drl/comm/gloo.py", 2) == ["tests/comm/test_gloo.py::test_a"]
    del known.seconds["tests/comm/test_gloo.py::test_a"]
    assert known.tests_for("gmi_drl/comm/gloo.py", 2) == known.tests_for("gmi_drl/comm/gloo.py", 5) != []
    assert known.tests_for("gmi_drl/comm/other.py", 2) == []


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ({}, []),
        ({"tests/a/test_a.py": "2", "tests/test_new.py": "1"}, ["tests/a/test_a.py", "tests/test_new.py"]),
        ({"tests/conftest.py": "2"}, ["tests"]),
        ({"tests/a/test_a.py": "2", "gmi_drl/a.py": "2"}, ["tests"]),
    ],
)
def test_only_tests_that_changed_are_measured_anew(changed, stale):
    before = {"gmi_drl/a.py": "1", "tests/conftest.py": "1", "tests/a/test_a.py": "1", "tests/test_b.py": "1"}
    assert CoverageMap(digests=before).stale_tests(before | changed) == stale
    assert CoverageMap().stale_tests(before) == ["tests"]


def test_of_chosen_folders_only_their_tests_are_measured():
    before = {"tests/a/test_a.py": "1", "tests/b/test_b.py": "1", "gmi_drl/a.py": "1"}
    known, both = CoverageMap(digests=before), {"tests/a/test_a.py": "2", "tests/b/test_b.py": "2"}
    assert known.stale_tests(before | both, ["tests/a"]) == ["tests/a/test_a.py"]
    assert known.stale_tests(before | {"gmi_drl/a.py": "2"}, ["tests/a", "tests/c"]) == ["tests/a", "tests/c"]


def test_what_is_measured_anew_takes_the_place_of_what_was_known_of_the_same_files():
    old = CoverageMap({"a.py": {1: ["x::1", "y::1"], 2: ["x::2"]}}, {"x::1": 1.0, "x::2": 1.0, "y::1": 1.0}, {"y": "1"})
    new = CoverageMap({"a.py": {2: ["x::3"]}, "b.py": {1: ["x::3"]}}, {"x::3": 2.0}, {"y": "2"})
    assert old.renewed(new, ["x"]) == CoverageMap(
        {"a.py": {2: ["x::3"], 1: ["y::1"]}, "b.py": {1: ["x::3"]}}, {"y::1": 1.0, "x::3": 2.0}, {"y": "2"}
    )


def test_where_the_tests_of_a_module_are():
    assert mirrored("gmi_drl/comm/gloo.py") == "tests/comm/test_gloo"
