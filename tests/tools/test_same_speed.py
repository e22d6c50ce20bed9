import pytest

from tools import same_speed
from tools.checkout import ROOT


def test_ratios_are_of_rounds_and_above_one_is_faster():
    values = {"old": [10.0, 20.0, 30.0], "new": [20.0, 20.0, 15.0]}
    row = same_speed.line("case", values, is_time=False, unit="steps/s")
    assert row == "| case | 20 steps/s | 20 steps/s | 1.00x (0.50 to 2.00) |"
    assert "| 1.00x (0.50 to 2.00) |" in same_speed.line("case", values, is_time=True, unit="s")
    faster = {"old": [2.0], "new": [1.0]}
    assert same_speed.line("case", faster, is_time=True, unit="s").endswith("| 2.00x (2.00 to 2.00) |")


def test_a_case_is_measured_by_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(same_speed, "ROUNDS", 1)
    monkeypatch.setattr(same_speed, "REPEATS", 1)
    monkeypatch.setattr(same_speed, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr("sys.argv", ["same_speed", str(ROOT), "--case", "planning"])
    assert same_speed.main() == 0
    assert "| planning | " in (tmp_path / "page.md").read_text()


def test_our_side_is_the_first():
    samples = {"gmi-drl": [{"value": 3.0}, {"value": 1.0}, {"value": 2.0}], "other": [{"value": 9.0}]}
    assert same_speed.ours({"samples": samples}) == pytest.approx(2.0)
