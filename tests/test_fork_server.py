"""What is forked for tests does not harm the tests that run meanwhile."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = """
import os, signal, subprocess
from tests.fork_server import EXECUTABLE, SERVER
signal.signal(signal.SIGHUP, lambda number, frame: print("SIGHUP"))
with subprocess.Popen(["sleep", "60"]) as stopped:
    stopped.send_signal(signal.SIGSTOP)
    os.waitpid(stopped.pid, os.WUNTRACED)
    forked = SERVER.popen([EXECUTABLE, "-c", "print(5)"], stdout=-1, env=dict(os.environ), gmis_are_forked=False)
    print(type(forked).__name__, forked.communicate()[0].decode().strip())
    stopped.kill()
SERVER.close()
"""


def test_without_a_terminal_a_stopped_process_does_not_make_a_fork_end_all_tests():
    """The kernel sends SIGHUP to a process group with a stopped process that loses its last tie to its session."""
    line = [sys.executable, "-c", SCRIPT]
    run = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, start_new_session=True
    )
    assert run.returncode == 0 and run.stdout.split() == ["Forked", "5"], run.stdout + run.stderr
