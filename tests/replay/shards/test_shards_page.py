"""The code of the guide runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/guides/shards.md"


def test_the_first_code_of_the_guide():
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    names = {}
    exec(code, names)
    assert names["fields"]["action"].shape == (32, 50, 8)
    assert set(names["fields"]) == {"obs", "action"}
    assert set(names["lengths"].tolist()) <= {1, 50}


def test_the_example_of_opening(capsys):
    import doctest

    from gmi_drl.replay.shards import opening

    assert doctest.testmod(opening).failed == 0
    assert doctest.testmod(opening).attempted > 5
