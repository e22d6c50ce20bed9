import pytest

from gmi_drl.errors import MachineError, PeerDiedError, UsageError
from gmi_drl.roles.child import describe, load_role


def test_a_role_is_loaded_from_a_file_or_a_module(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine:\n    value = 7\n")
    assert load_role(f"{tmp_path}/mine.py:Mine").value == 7
    assert load_role("gmi_drl.roles.holistic:Holistic").__name__ == "Holistic"


@pytest.mark.parametrize("location", ["missing.py:Mine", "no.such.module:Mine", "gmi_drl.units:Mine", "Mine"])
def test_a_role_that_cannot_be_loaded_is_named(location):
    with pytest.raises(UsageError, match=r"cannot be loaded, expected FILE\.py:CLASS"):
        load_role(location)


def test_errors_become_messages():
    assert describe(MachineError("full")) == {"kind": "error", "message": "full", "exit_code": 4, "blames_peer": False}
    assert describe(PeerDiedError("rank 1"))["blames_peer"]
    assert describe(ZeroDivisionError("oops"))["message"] == "ZeroDivisionError: oops"
