"""docs/where.md names files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", (ROOT / "docs" / "where.md").read_text())


def test_many_are_named():
    assert len(NAMED) > 50


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_what_is_named_is_there(name):
    places = [ROOT / name, ROOT / "gmi_drl" / name]
    assert any(place.is_dir() if name.endswith("/") else place.is_file() for place in places)


def test_every_package_is_named():
    packages = {path.parent.name for path in (ROOT / "gmi_drl").glob("*/__init__.py")}
    assert packages == packages & {name.partition("/")[0] for name in NAMED}
