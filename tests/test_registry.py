from dataclasses import dataclass

import pytest

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.writers import WRITERS
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.layout.backends import BACKENDS
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.registry import Registry, class_at
from gmi_drl.templates import TEMPLATES


@dataclass(frozen=True)
class Part:
    name: str


OWN = Part("own")
GROUP = "gmi_drl.parts_under_test"
PART_OF_OTHERS = "from types import SimpleNamespace\nPART = SimpleNamespace(name='added')\nNAMELESS = 3\n"


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A registry to which an installed package adds: one that is there, one whose module is missing."""
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{GROUP}]\nadded = added_part:PART\nalias = added_part:PART\nbroken = nowhere:PART\n"
        "nameless = added_part:NAMELESS\nfails = failing_part:PART\n"
    )
    (tmp_path / "added_part.py").write_text(PART_OF_OTHERS)
    (tmp_path / "failing_part.py").write_text("raise RuntimeError('no driver')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return Registry("part", GROUP, [OWN])


def test_ours_and_those_of_others_are_found(parts):
    assert parts.names == ["own", "added", "alias", "broken", "fails", "nameless"]
    assert parts.find("own") is OWN and parts.find("added").name == "added"


def test_what_cannot_be_found_is_named(parts):
    with pytest.raises(UsageError, match="there is no part 'owm'; did you mean 'own'"):
        parts.find("owm")
    with pytest.raises(
        MachineError, match="part alias: added_part:PART is the part 'added': the entry point must have"
    ):
        parts.find("alias")
    with pytest.raises(MachineError, match="part broken: nowhere:PART cannot be imported: No module named 'nowhere'"):
        parts.find("broken")
    with pytest.raises(
        MachineError, match="part nameless: added_part:NAMELESS cannot be imported: 'int' object has no"
    ):
        parts.find("nameless")
    with pytest.raises(MachineError, match="part fails: failing_part:PART cannot be imported: no driver"):
        parts.find("fails")


def test_broken_packages_take_nothing_from_the_others(parts):
    assert [part.name for part in parts.usable()] == ["own", "added"]


def test_the_code_of_an_entry_is_found_or_named():
    assert class_at("gmi_drl.registry:Registry") is Registry
    for location in ("gmi_drl.nowhere:Class", "gmi_drl.registry:Missing"):
        with pytest.raises(MachineError, match=f"{location} cannot be imported"):
            class_at(location)


def test_packages_that_add_parts_find_the_groups_of_entry_points_under_their_old_names():
    """Wherever the modules lie that read them."""
    registries = (REDUCTIONS, BACKENDS, LEARNERS, TEMPLATES, WRITERS)
    assert [registry._group for registry in registries] == [
        f"gmi_drl.{name}" for name in ("reductions", "backends", "learners", "templates", "writers")
    ]
