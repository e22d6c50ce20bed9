"""How stages are run and kept."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import stages
from scripts import BENCHMARKS, is_alive, wait_until
from stages import Stage


def stage(*codes, name="one", seconds=30.0):
    return Stage(name, "a stage", seconds, tuple(("python", "-c", code) for code in codes))


@pytest.fixture
def output(tmp_path):
    return tmp_path / "results" / "day.jsonl"


def rows(output):
    return [json.loads(line) for line in output.read_text().splitlines()]


def test_a_stage_leaves_a_line_with_what_it_told(output):
    code = """print('{"a": 1}'); print("words"); print('{"b": [2]}')"""
    assert stages.run_all([stage(code)], output, 60) == 0
    (row,) = rows(output)
    assert (row["stage"], row["state"], row["saw"]) == ("one", "done", {"a": 1, "b": [2]})
    assert row["last_words"][-1] == "words" and row["commands"] == [["python", "-c", code]]
    assert row["machine"]["versions"]["torch"] and row["machine"]["commit"]
    assert "words" in output.with_suffix(".log").read_text()


def test_the_second_command_finds_what_the_first_has_left(output):
    write, read = "open('it', 'w').write('here')", "print(open('it').read())"
    assert stages.run_all([stage(write, read)], output, 60) == 0
    assert rows(output)[0]["last_words"][-1] == "here"


def test_a_command_that_fails_ends_its_stage_and_no_other(output):
    failing = stage("raise SystemExit(3)", "print('never')")
    assert stages.run_all([failing, stage("print(1)", name="two")], output, 60) == 1
    assert [row["state"] for row in rows(output)] == ["exit 3", "done"]
    assert "never" not in rows(output)[0]["last_words"]


def test_what_takes_too_long_is_ended_with_all_that_it_has_started(output, tmp_path):
    code = textwrap.dedent(f"""
        import subprocess, time
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        time.sleep(600)
    """)
    started = time.monotonic()
    stages.run_all([stage(code, seconds=5)], output, 60)
    assert time.monotonic() - started < 60
    assert rows(output)[0]["state"] == "too late"
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_stage_that_the_end_of_the_call_cut_short_has_no_result(output):
    stages.run_all([stage("import time; time.sleep(600)", seconds=4)], output, 6)
    assert rows(output)[0]["state"] == "cut short"
    assert stages.results(output) == {}


def test_a_stage_is_begun_only_if_there_is_time_for_it(output):
    assert stages.run_all([stage("pass", seconds=90), stage("pass", name="two", seconds=5)], output, 60) == 0
    assert [row["stage"] for row in rows(output)] == ["two"]


def test_the_last_result_of_a_stage_counts(output):
    stages.run_all([stage("raise SystemExit(1)")], output, 60)
    stages.run_all([stage("pass")], output, 60)
    assert stages.results(output)["one"]["state"] == "done"


def test_a_stage_tells_the_cpu_time_of_all_that_it_has_started(output):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'for _ in range(10**7): pass'])"
    stages.run_all([stage(code)], output, 60)
    assert rows(output)[0]["cpu_s"] > 0


def test_a_program_is_found_in_path_and_beyond(tmp_path, monkeypatch):
    program = tmp_path / "a-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert stages.find_program("a-program") == str(program)
    find = tmp_path / "find"
    find.write_text("#!/bin/sh\necho /opt/driver/bin/$(echo \"$*\" | sed 's/.*-name \\([^ ]*\\).*/\\1/')\n")
    find.chmod(0o755)
    assert stages.find_program("another") == "/opt/driver/bin/another"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process_and_no_result(output, tmp_path, number):
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    program = textwrap.dedent(f"""
        import pathlib, sys
        sys.path.append({str(BENCHMARKS / "gpu_day")!r})
        import stages
        one = stages.Stage("one", "a stage", 100, (("python", "-c", {code!r}),))
        stages.run_all([one], pathlib.Path({str(output)!r}), 300)
    """)
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, **nowhere)
    assert wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    os.killpg(running.pid, number)  # as a terminal does, or who kills a job
    assert running.wait(60) != 0
    assert wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    assert stages.results(output) == {}
