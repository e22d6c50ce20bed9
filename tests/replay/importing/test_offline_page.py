"""The first code in docs/guides/offline.md runs; the second is that of test_import_several."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "offline.md"


def test_the_example_imports_and_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text, _ = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    exec(text, {})
    assert capsys.readouterr().out == "3 150 obs float32[11]\n"
