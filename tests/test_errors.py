import pytest

from gmi_drl.errors import LISTED, MachineError, UsageError, did_you_mean, not_importable, told_with


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


def test_mistakes_are_told_at_the_end_of_the_block_or_with_its_error():
    with pytest.raises(UsageError, match=r"^a; b; c$"), told_with(found := ["a"]):
        found.append("b")
        raise MachineError("c")
    with pytest.raises(UsageError, match=r"^a; b$"), told_with(found := ["a"]):
        found.append("b")
    with pytest.raises(MachineError, match=r"^c$"), told_with([]):
        raise MachineError("c")
    with told_with([]):
        pass


def failed_import(name):
    try:
        __import__(name)
    except Exception as error:
        return error


def test_a_module_that_is_not_there_is_told_apart_from_one_that_fails(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("\nimport no_such_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    gone = not_importable("Zoo", "no_zoo.here", failed_import("no_zoo"), "pip install zoo")
    assert str(gone) == "Zoo is not installed (No module named 'no_zoo'): pip install zoo"
    broken = str(not_importable("Zoo", "half_there", failed_import("half_there"), "pip install zoo"))
    assert broken.startswith(
        "Zoo is installed but cannot be imported: ModuleNotFoundError: No module named 'no_such_part' ("
    )
    assert broken.endswith("half_there.py, line 2)")
