"""With trackio itself, into a folder of the test, where it is installed; without it, what is said."""

import json
import sqlite3
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest
from conftest import tiny_config, tiny_layout
from test_tags import ROW

from gmi_drl.errors import MachineError
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.writers.tags import scalars

MODULE = "gmi_drl.run.writers.trackio"

WRITE = """
import json, sys
from pathlib import Path
from threading import Thread
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.writers.trackio import Trackio

def work():
    writer = Trackio(RunFolder(Path(sys.argv[1])))
    writer.write(json.loads(sys.argv[2]))
    writer.close()

thread = Thread(target=work)
thread.start()
thread.join()
"""


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "ant-1")
    folder.create()
    folder.write_setup(tiny_layout(1), tiny_config())
    return folder


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(MachineError, match=r"trackio is not installed .*pip install 'gmi-drl\[trackio\]'"):
        import_module(MODULE)


@pytest.mark.skipif(find_spec("trackio") is None, reason="needs the extra [trackio]")
def test_trackio_has_the_numbers_and_stdout_has_nothing(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "kept"))
    command = [sys.executable, "-c", WRITE, str(folder.path), json.dumps(ROW)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout == ""
    with sqlite3.connect(tmp_path / "kept" / "gmi-drl.db") as kept:
        name, step, numbers = kept.execute("select run_name, step, metrics from metrics").fetchone()
    assert (name, step) == ("ant-1", 7)
    assert {tag: json.loads(numbers)[tag] for tag in scalars(ROW)} == pytest.approx(scalars(ROW))
