"""docs/guides/other_tools.md shows what is printed, of every format."""

import re
from pathlib import Path

import pytest
from layouts import backends  # noqa: F401
from pages import gmi_drl, transcripts

from gmi_drl.layout.export import FORMATS

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "other_tools.md").read_text()
SHOWN = transcripts(PAGE)


@pytest.mark.parametrize(("arguments", "shown"), SHOWN, ids=[" ".join(arguments[-3:]) for arguments, _ in SHOWN])
def test_the_page_shows_what_is_printed(arguments, shown, tmp_path, backends):  # noqa: F811
    (node,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "h100.yaml").write_text(node)
    run = gmi_drl(arguments, tmp_path)
    assert (run.returncode, run.stdout) == (0, shown), run.stderr


def test_every_format_is_shown_and_said_of_its_backends():
    assert {arguments[-1] for arguments, _ in SHOWN} == set(FORMATS)
    rows = dict(re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?) \|", PAGE, re.MULTILINE))
    for name, form in FORMATS.items():
        named = set(re.findall(r"`([\w-]+)`", rows[name]))
        assert (named == set(form.backends)) if named else rows[name].startswith("all, and GMIs on cores")
