import pytest

from tools.mutants.operators import Mutant
from tools.mutants.results import Result, Results

FILES = {"gmi_drl/a.py": "1", "gmi_drl/b.py": "1", "tests/test_a.py": "1"}
MUTANT = Mutant("gmi_drl/a.py", 7, "number", "1", "2", 0, 1, "a1")


def recorded(path, outcome, by):
    Results(path, FILES).add(Result(MUTANT, outcome, by))
    return lambda **changed: Results(path, FILES | changed).outcome(MUTANT)


@pytest.mark.parametrize("outcome", ["killed", "hung"])
def test_what_a_test_noticed_holds_until_its_file_or_the_mutated_one_changes(tmp_path, outcome):
    known = recorded(tmp_path / "results", outcome, "tests/test_a.py::test_x")
    assert known() == known(**{"gmi_drl/b.py": "2"}) == outcome
    assert known(**{"gmi_drl/a.py": "2"}) is None and known(**{"tests/test_a.py": "2"}) is None


@pytest.mark.parametrize("outcome", ["survived", "not run"])
def test_what_no_test_noticed_holds_until_anything_changes(tmp_path, outcome):
    known = recorded(tmp_path / "results", outcome, "")
    assert known() == outcome and known(**{"gmi_drl/b.py": "2"}) is None and known(**{"tests/test_new.py": "1"}) is None


def test_what_a_test_that_fails_anyway_noticed_is_forgotten(tmp_path):
    path = tmp_path / "results"
    recorded(path, "killed", "tests/test_a.py::test_x")
    results = Results(path, FILES)
    assert results.by(MUTANT) == "tests/test_a.py::test_x"
    results.forget("tests/test_a.py::test_y")
    assert Results(path, FILES).outcome(MUTANT) == "killed"
    results.forget("tests/test_a.py::test_x")
    assert results.outcome(MUTANT) is None and Results(path, FILES).outcome(MUTANT) is None
