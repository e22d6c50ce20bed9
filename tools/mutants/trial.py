"""Tries a mutant: runs tests in a copy of the checkout, in a fork of a process that has imported torch."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tools.mutants.operators import Mutant

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PASSED, HUNG = 0, -1000
"""Exit codes: pytest's for success, and one that no process has."""


def copy_checkout(root: Path, target: Path) -> None:
    """Copy the tracked and untracked files of a checkout, and link its virtual environment."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target / name)
    (target / ".venv").symlink_to(root / ".venv")


def run_tests(copy: Path, tests: Sequence[str], deadline_s: float, log: Path) -> int:
    """Fork a process that runs pytest. Returns its exit code; `HUNG` after `deadline_s`.

    This process must not have imported the package. It becomes the parent of orphans, and ends all that tests started.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = os.fork()
    if pid == 0:
        _become_pytest(copy, tests, log)
    deadline = time.monotonic() + deadline_s
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(-1, os.WNOHANG)  # orphans, too: tests wait for what they have left behind
            if ended == pid:
                return os.waitstatus_to_exitcode(status)
            if not ended:
                time.sleep(0.02)
        return HUNG
    finally:
        _end_descendants()


def try_mutant(mutant: Mutant, copy: Path, tests: Sequence[str], deadline_s: float, log: Path) -> int:
    """Like `run_tests`, with the mutant applied to the copy meanwhile."""
    file = copy / mutant.path
    text = file.read_text()
    file.write_text(mutant.applied(text))
    try:
        return run_tests(copy, tests, deadline_s, log)
    finally:
        file.write_text(text)


def failed_test(log: Path) -> str:
    """The first test, or file that could not be imported, that a log reports as failed; empty if none."""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", log.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else ""


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _become_pytest(copy: Path, tests: Sequence[str], log: Path) -> None:
    """Run pytest in this forked process. Never returns."""
    code: int = 70
    try:
        die_with_parent()
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(copy)
        # A file changed twice within a second, with the same length, looks unchanged to a cache of byte code.
        sys.dont_write_bytecode = True
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.path.insert(0, str(copy))
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
        sys.stdout.flush()
    finally:
        os._exit(code)


def _end_descendants() -> None:
    """Kill and reap all descendants of this process."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)
