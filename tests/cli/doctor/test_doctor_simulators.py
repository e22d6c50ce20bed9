import pytest

from gmi_drl.cli.doctor import simulators
from gmi_drl.cli.doctor.simulators import SIMULATORS, simulator


@pytest.mark.parametrize("package", SIMULATORS)
def test_a_package_that_is_missing_has_its_extra(package, monkeypatch):
    monkeypatch.setattr(simulators, "find_spec", lambda module: None)
    seen, remedy = simulator(package)
    assert "cannot be imported" in seen and f"pip install 'gmi-drl[{SIMULATORS[package][2]}]'" in remedy


def test_a_package_that_is_there_has_its_version(monkeypatch):
    monkeypatch.setattr(simulators, "version", lambda package: "1.2.3")
    monkeypatch.setattr(simulators, "find_spec", lambda module: module)
    assert simulator("ale-py") == ("1.2.3, tasks atari:NAME", "")
