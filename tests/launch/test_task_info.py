"""Each test of a foreign task starts a process that imports torch; they are few."""

import os
import resource
import subprocess
import sys
from contextlib import ExitStack, suppress

import psutil
import pytest

from gmi_drl.errors import GmiError, GmiWarning, MachineError, UsageError
from gmi_drl.launch import task_info
from gmi_drl.launch.task_info import task_spec
from gmi_drl.tasks.adapters.isaacgym_process import START_S
from gmi_drl.workload import TASK_SPECS

TASKS = """
import os, subprocess, sys, time
from pathlib import Path
HERE = Path(__file__).parent
class Zoo:
    def __init__(self, rest):
        from gmi_drl.workload.spaces import continuous, vector
        from gmi_drl.workload import TaskSpec
        self.rest, self.spec = rest, TaskSpec("zoo:" + rest, "zoo", vector(5), continuous(2), (8, 4), 100, 0.1, 0.5)
        if rest in ("server", "stays"):  # which holds stdout and stderr, as Unity's and Godot's do
            (HERE / "server").write_text(str(subprocess.Popen(["sleep", "300"]).pid))
    def close(self):
        (HERE / "closed").write_text(self.rest)
        if self.rest == "stays":
            time.sleep(300)
        if self.rest == "breaks":
            print("one more line" * 9999)
            raise OSError("the recorder is gone")
def make(rest, **sizes):
    print("a simulator says hello")
    print("and complains", file=sys.stderr, flush=True)
    if rest == "dies": os._exit(9)
    assert sizes == {"num_env": 1, "device": "cpu", "seed": 0, "threads": 1} or sizes["device"] == "cuda"
    return Zoo(rest)
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
    task_info._ask.cache_clear()


def test_our_own_sizes_need_no_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    assert task_spec("AT") is TASK_SPECS["ant"]
    with pytest.raises(UsageError, match="no task 'elephant'"):
        task_spec("elephant")


def test_a_foreign_task_is_asked_once_for_its_sizes(monkeypatch):
    spec = task_spec("zoo:lion")
    assert (spec.name, spec.observation.size, spec.action.size, spec.hidden) == ("zoo:lion", 5, 2, (8, 4))
    assert (spec.episode_steps, spec.step_s, spec.reward_scale) == (100, 0.1, 0.5) and hash(spec)
    assert "zoo" not in sys.modules
    monkeypatch.setattr(subprocess, "Popen", None)
    assert task_spec("zoo:lion") is spec


def assert_gone(pid):
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(60)


def test_what_is_made_is_told_and_closed(tmp_path, capsys):
    task_spec("zoo:lion")
    assert capsys.readouterr() == ("", "making zoo:lion...\n")
    assert (tmp_path / "closed").read_text() == "lion"


def test_a_program_of_the_simulator_is_not_waited_for_and_does_not_stay(tmp_path):
    assert task_spec("zoo:server").observation.size == 5
    assert_gone(int((tmp_path / "server").read_text()))


def test_a_simulator_that_does_not_close_is_named_and_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(task_info, "CLOSE_S", 0.5)
    with pytest.warns(GmiWarning, match="^zoo:stays has not closed within 0.5 s: its process is killed$"):
        task_spec("zoo:stays")
    assert_gone(int((tmp_path / "server").read_text()))


def test_a_simulator_that_fails_to_close_is_quoted_whatever_it_prints_meanwhile():
    with pytest.warns(GmiWarning, match=r"^zoo:breaks failed to close, exit code 1: (.*\n)*  \| OSError: the recorder"):
        task_spec("zoo:breaks")


def test_the_childs_error_is_ours():
    with pytest.raises(MachineError, match=r"mjlab is not installed.*pip install mjlab"):
        task_spec("mjlab:Ant")


def test_a_simulator_that_dies_is_quoted():
    quote = r"exit code 9: .*describe zoo:dies\n  \| a simulator says hello\n(.*\n)*  \| and complains$"
    with pytest.raises(GmiError, match=rf"zoo:dies cannot be made, {quote}"):
        task_spec("zoo:dies")


def test_its_end_is_seen_by_a_process_with_more_than_a_thousand_files(tmp_path, monkeypatch):
    ends = tmp_path / "python"
    ends.write_text(f'#!/bin/sh\ncase "$*" in *describe*) exit 9; esac\nexec {sys.executable} "$@"\n')
    ends.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(ends))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as life:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
        life.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(1024):
            life.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(GmiError, match="zoo:lion cannot be made, exit code 9"):
            task_spec("zoo:lion")


def test_a_simulator_that_never_starts_is_given_up_and_quoted(tmp_path, monkeypatch):
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nfor n in 1 2 3 4 5 6; do echo line $n; done\necho no licence >&2\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr(task_info, "DESCRIBE_S", 1.0)
    quote = r"describe zoo:lion\n  \| line 2\n(  \| line .\n){4}  \| no licence$"
    with pytest.raises(GmiError, match=rf"zoo:lion has not been made within 1 s; try it: .*{quote}"):
        task_spec("zoo:lion")


def test_a_simulator_that_prints_without_end_is_given_up(tmp_path, monkeypatch):
    prints = tmp_path / "python"
    prints.write_text("#!/bin/sh\nexec yes\n")
    prints.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(prints))
    monkeypatch.setattr(task_info, "DESCRIBE_S", 0.2)
    with pytest.raises(GmiError, match=r"zoo:lion has not been made within 0 s; try it: .*(\n  \| y){5}$"):
        task_spec("zoo:lion")


def test_an_adapter_gives_its_simulator_up_before_we_give_up_the_adapter():
    assert task_info.DESCRIBE_S > START_S
