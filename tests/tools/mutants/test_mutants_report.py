import pytest

from tools.mutants import report
from tools.mutants.operators import OPERATORS, Mutant


def mutant(name, operator="number"):
    return Mutant("gmi_drl/algo/ppo.py", 7, operator, "1", "2", 0, 1, name)


@pytest.fixture
def page(tmp_path, monkeypatch):
    (tmp_path / "explained.yaml").write_text("b: It changes nothing.\n")
    monkeypatch.setattr(report, "EXPLAINED", tmp_path / "explained.yaml")
    chosen = {"algo": [mutant("a"), mutant("b"), mutant("c"), mutant("d", "boolean")], "comm": [mutant("e")]}
    return report.page(chosen, {"a": "killed", "b": "survived", "c": "hung", "d": "not run"}, seed=3, commit="abc1234")


def test_the_score_counts_what_was_noticed(page):
    assert "| algo | 4 | 1 | 1 | 1 | 1 | 0 | 50% |" in page
    assert "| comm | 1 | 0 | 0 | 0 | 0 | 1 | - |" in page and "| all | 5 | 1 | 1 | 1 | 1 | 1 | 50% |" in page
    assert "Seed 3, tests in tests. Files, lines and names are those of commit abc1234." in page


def test_survivors_are_listed_with_their_reasons(page):
    assert "number: `1` to `2` (survived; `b`). It changes nothing." in page
    assert "(not run; `d`). not explained" in page
    assert not any(f"`{name}`)" in page for name in "ace")


def test_operators_are_told_with_their_numbers(page):
    assert f"| number | {OPERATORS['number']} | 3 | 1 |" in page
    assert all(f"| {name} | {what} |" in page for name, what in OPERATORS.items())
