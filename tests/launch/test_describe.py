"""Each test of a foreign task starts a process that imports torch; they are few."""

import subprocess
import sys

import pytest

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.launch import describe
from gmi_drl.launch.describe import task_spec
from gmi_drl.tasks.adapters.isaacgym_process import START_S
from gmi_drl.workload import TASK_SPECS

TASKS = """
import os, sys, time
def make(rest, **sizes):
    print("a simulator says hello")
    print("and complains", file=sys.stderr, flush=True)
    if rest == "dies": os._exit(9)
    assert sizes == {"num_env": 1, "device": "cpu", "seed": 0, "threads": 1} or sizes["device"] == "cuda"
    from types import SimpleNamespace
    from gmi_drl.workload import TaskSpec
    return SimpleNamespace(spec=TaskSpec("zoo:" + rest, "zoo", 5, 2, (8, 4), 100, 0.1, 0.5))
import threading; threading.Thread(target=time.sleep, args=(60,)).start()  # it would not end by itself
"""


@pytest.fixture(autouse=True)
def zoo(tmp_path, monkeypatch):
    """An installed package with the tasks `zoo:...`, here and in child processes; nothing is known of them yet."""
    (tmp_path / "zoo.py").write_text(TASKS)
    folder = tmp_path / "zoo-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[gmi_drl.tasks]\nzoo = zoo:make\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    describe._ask.cache_clear()


def test_our_own_sizes_need_no_process(monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    assert task_spec("AT") is TASK_SPECS["ant"]
    with pytest.raises(UsageError, match="no task 'elephant'"):
        task_spec("elephant")


def test_a_foreign_task_is_asked_once_for_its_sizes(monkeypatch):
    spec = task_spec("zoo:lion")
    assert (spec.name, spec.num_obs, spec.num_actions, spec.hidden) == ("zoo:lion", 5, 2, (8, 4))
    assert (spec.episode_steps, spec.step_s, spec.reward_scale) == (100, 0.1, 0.5) and hash(spec)
    assert "zoo" not in sys.modules
    monkeypatch.setattr(subprocess, "run", None)
    assert task_spec("zoo:lion") is spec


def test_the_childs_error_is_ours():
    with pytest.raises(MachineError, match=r"mjlab is not installed.*pip install mjlab"):
        task_spec("mjlab:Ant")


def test_a_simulator_that_dies_is_quoted():
    quote = r"exit code 9: .*describe zoo:dies\n  \| a simulator says hello\n(.*\n)*  \| and complains$"
    with pytest.raises(GmiError, match=rf"zoo:dies cannot be made, {quote}"):
        task_spec("zoo:dies")


def test_a_simulator_that_never_starts_is_given_up_and_quoted(tmp_path, monkeypatch):
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nfor n in 1 2 3 4 5 6; do echo line $n; done\necho no licence >&2\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr(describe, "DESCRIBE_S", 1.0)
    quote = r"describe zoo:lion\n  \| line 2\n(  \| line .\n){4}  \| no licence$"
    with pytest.raises(GmiError, match=rf"zoo:lion has not been made within 1 s; try it: .*{quote}"):
        task_spec("zoo:lion")


def test_an_adapter_gives_its_simulator_up_before_we_give_up_the_adapter():
    assert describe.DESCRIBE_S > START_S
