import json

from gmi_drl.cli import doctor


def test_a_machine_that_can_train(command_line):
    code, out, _ = command_line("doctor", "--format", "json")
    checks = {row["check"]: row for row in json.loads(out)["checks"]}
    assert code == 0 and checks["torch"]["verdict"] == checks["mujoco"]["verdict"] == checks["cores"]["verdict"] == "ok"


def test_a_machine_that_cannot(command_line, monkeypatch):
    missing = doctor.Check("mujoco", lambda: ("no", "pip install 'gmi-drl[mujoco]'"))
    monkeypatch.setattr(doctor, "CHECKS", (missing, doctor.Check("GPUs", lambda: ("none", "buy one"), is_needed=False)))
    code, out, err = command_line("doctor")
    assert code == 4 and "pip install 'gmi-drl[mujoco]'" in out and "this machine cannot train: mujoco" in err
    assert "buy one" in out


def test_a_check_that_fails_is_a_finding_not_a_crash(command_line, monkeypatch):
    def broken():
        raise OSError("permission denied")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check("shared memory", broken),))
    code, out, _ = command_line("doctor")
    assert code == 4 and "permission denied" in out


def test_core_ranges():
    assert doctor._ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
