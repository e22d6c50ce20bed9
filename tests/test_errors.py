from gmi_drl.errors import LISTED, did_you_mean


def test_the_nearest_name_is_offered() -> None:
    assert did_you_mean("annt", ["ant", "humanoid"]) == "; did you mean 'ant'?"


def test_neither_case_nor_the_end_of_a_name_matters() -> None:
    known = ["MRR", "MPR-shm", "MPR-gloo"]
    assert did_you_mean("mrr", known) == "; did you mean 'MRR'?"
    assert did_you_mean("MPR", known) == "; did you mean 'MPR-shm' or 'MPR-gloo'?"


def test_without_a_near_name_all_are_listed() -> None:
    assert did_you_mean("walk-the-dog", ["ant", "humanoid"]) == "; known: ant, humanoid"


def test_too_many_names_are_counted() -> None:
    names = [f"task-{number}" for number in range(LISTED + 1)]
    assert did_you_mean("???", names) == f"; there are {LISTED + 1}"
