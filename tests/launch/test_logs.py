import pytest

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.launch.logs import LINES, place_and_end, told_by_their_ends

MANY = "".join(f"line {i}\n" for i in range(2 * LINES))
END = "".join(f"\n  | line {i}" for i in range(LINES, 2 * LINES))


def told(message):
    error = MachineError(message)
    with pytest.raises(MachineError) as failed, told_by_their_ends():
        raise error
    assert failed.value is error
    return str(error)


def test_the_place_of_a_log_gives_way_to_its_end(tmp_path):
    log = tmp_path / "gmi-0.log"
    log.write_text(MANY)
    assert place_and_end(log) == f"\n  its log is {log}{END}"
    assert told(f"GMI 0 died{place_and_end(log)}") == f"GMI 0 died\n  its log ends with{END}"
    assert told(f"GMI 0: a bug\n  its log is {log}\n  more") == f"GMI 0: a bug\n  its log ends with{END}\n  more"


def test_a_log_that_tells_nothing_is_not_named(tmp_path):
    log = tmp_path / "gmi-0.log"
    assert place_and_end(log) == "" and told(f"no\n  its log is {log}") == "no"
    log.write_text("")
    assert told(f"no{place_and_end(log)}") == "no"
    assert told(f"no GMI has been heard of: see the logs in {tmp_path}") == "no GMI has been heard of"


def test_other_errors_pass_as_they_are():
    with pytest.raises(GmiError, match=r"^it went wrong$"), told_by_their_ends():
        raise GmiError("it went wrong")
