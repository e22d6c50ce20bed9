from pathlib import Path

import pytest

from tools.mutants.operators import OPERATORS, mutants_of, sample

CODE = '''"""Documentation: 1 + 1."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

LIMIT: int | None = 3 * 4


def first(items: list[int], start: int = 0) -> int:
    """The first, or 1."""
    assert start == 0
    for item in items:
        if item > start and not item == 7:
            return item
    raise ValueError(f"nothing above {start + 1}" + "!")


class Thing:
    def reset(self) -> None:
        """Begin anew."""
        self.parts = [part for part in self.parts if part is not None]
        self.parts.clear()
        self.count -= min(2, 5) if self.parts else 100
        while self.count:
            self.count //= 10
'''


@pytest.fixture
def changes(tmp_path):
    """`(operator, original, replacement)` of every mutant of a text."""

    def found(text):
        (tmp_path / "code.py").write_text(text)
        return {(m.operator, m.original, m.replacement) for m in mutants_of(tmp_path / "code.py")}

    return found


def test_every_operator_is_at_work_and_nothing_else(changes):
    whole = CODE[CODE.index("self.parts = ") :].rstrip()
    assert changes(CODE) == {
        ("arithmetic", "3 * 4", "(3 / 4)"),
        ("number", "0", "1"),
        ("condition", "item > start and not item == 7", "(not (item > start and (not item == 7)))"),
        ("boolean", "item > start and not item == 7", "(item > start or not item == 7)"),
        ("comparison", "item > start", "(item >= start)"),
        ("boolean", "not item == 7", "(item == 7)"),
        ("comparison", "item == 7", "(item != 7)"),
        ("raise gone", 'raise ValueError(f"nothing above {start + 1}" + "!")', "pass"),
        ("body gone", whole, "return"),
        ("condition", "part is not None", "True"),
        ("comparison", "part is not None", "(part is None)"),
        ("call gone", "self.parts.clear()", "pass"),
        (
            "arithmetic",
            "self.count -= min(2, 5) if self.parts else 100",
            "self.count += min(2, 5) if self.parts else 100",
        ),
        ("name", "min", "max"),
        ("number", "2", "3"),
        ("condition", "self.parts", "(not (self.parts))"),
        ("condition", "self.count", "(not (self.count))"),
        ("arithmetic", "self.count //= 10", "self.count *= 10"),
    }
    assert {operator for operator, _, _ in changes(CODE)} == set(OPERATORS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a | b", set()),
        ("x = folder / 'name' + f'{1}'", set()),
        ("x = a & b", {("arithmetic", "a & b", "(a | b)")}),
        ("x = 1 if a == b else 2", {("comparison", "a == b", "(a != b)"), ("number", "1", "2"), ("number", "2", "3")}),
        ("if not a:\n    b", {("boolean", "not a", "(a)")}),
    ],
)
def test_what_changes_nothing_or_the_same_twice_is_left_alone(changes, text, expected):
    assert changes(text) == expected


def test_a_change_is_made_where_it_says(tmp_path):
    path = tmp_path / "code.py"
    path.write_text("Größe = 'ä'\nwide = Größe == 'ö' or 1 + 1\n")
    texts = {mutant.original: mutant.applied(path.read_text()) for mutant in mutants_of(path)}
    assert texts["1 + 1"] == "Größe = 'ä'\nwide = Größe == 'ö' or (1 - 1)\n"
    assert texts["Größe == 'ö'"] == "Größe = 'ä'\nwide = (Größe != 'ö') or 1 + 1\n"


def test_names_are_unique_and_stay_when_other_lines_change(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(CODE)
    before = {mutant.name for mutant in mutants_of(path)}
    assert len(before) == len(mutants_of(path))
    path.write_text(CODE.replace("class Thing", "SEVEN = 8 - 1\n\n\nclass Thing"))
    after = {mutant.name for mutant in mutants_of(path)}
    assert before < after and len(after - before) == 2


def test_a_sample_is_chosen_by_its_seed_and_moves_little(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(CODE)
    everything = mutants_of(path)
    few = sample(everything, 6, seed=0)
    assert len(few) == 6 and few == sample(reversed(everything), 6, seed=0) != sample(everything, 6, seed=1)
    assert set(sample(everything[1:], 6, seed=0)) >= set(few) - {everything[0]}


def test_the_package_itself_has_mutants_of_every_operator():
    found = [mutant for file in sorted(Path("gmi_drl/roles").rglob("*.py")) for mutant in mutants_of(file)]
    assert {mutant.operator for mutant in found} == set(OPERATORS)
