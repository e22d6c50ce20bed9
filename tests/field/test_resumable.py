"""Runs of a script whose results are lines of a file."""

import subprocess

import pytest
from resumable import read, run_all

SCRIPT = "import json, sys; print(json.dumps({'of': sys.argv[2]})); sys.exit(sys.argv[2] == 'bad')"


def test_runs_go_on_after_one_has_failed(tmp_path):
    script, file = tmp_path / "script.py", tmp_path / "results" / "runs.jsonl"
    script.write_text(SCRIPT)
    with pytest.raises(subprocess.CalledProcessError):
        run_all(str(script), [["bad"], ["good"]], file, 1, str)
    assert read(file) == [{"of": "good"}]
