"""Processes of GMIs that are forked from one that has imported torch already, which saves a second or two each.

What a test sees is the same: a child of this process with the environment, descriptors and output that it was given,
the leader of its own process group, whose command line others see. What must be there when a program is executed
(LD_LIBRARY_PATH, LD_PRELOAD) needs a process that is started: `ForkServer.popen` starts one then.
"""

import ctypes
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from importlib import import_module
from pathlib import Path

from gmi_drl.processes.signals import ENDING

ROOT = Path(__file__).parent.parent
PIDS: set[int] = set()
"""Of all such processes that this one has started."""

LOADED = (
    "torch",
    "mujoco",
    "gmi_drl.roles.manager",
    "gmi_drl.roles.training.holistic",
    "gmi_drl.roles.decoupled.agent",
    "gmi_drl.roles.decoupled.trainer",
    "gmi_drl.roles.dedicated.simulator",
)
"""What nearly every GMI imports."""
AT_EXECUTION = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHASHSEED", "MUJOCO_GL")
LONGEST_COMMAND = 4096
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
EXECUTABLE, STARTED_WITH = sys.executable, dict(os.environ)
HIGH = 500
"""Where descriptors wait before they get their numbers."""


class ForkServer:
    """The process that forks, started when it is first needed."""

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), None

    def popen(
        self, command, *, stdin=None, stdout=None, stderr=None, env=None, pass_fds=(), process_group=None, **more
    ):
        """As `subprocess.Popen` for `python -P -m MODULE ...`: its stdin is empty, and it dies with this process."""
        env = os.environ if env is None else env
        if command[0] != EXECUTABLE or any(env.get(name) != STARTED_WITH.get(name) for name in AT_EXECUTION):
            given = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "env": env, "pass_fds": pass_fds}
            return subprocess.Popen(command, process_group=process_group, **given, **more)
        read = None
        if stdout == subprocess.PIPE:
            ours, theirs = os.pipe()
            read, stdout = open(ours, "rb"), open(theirs, "wb")  # noqa: SIM115
        stderr = stdout if stderr == subprocess.STDOUT else stderr
        with self._lock:
            if self._process is None:
                self._start()
            order = {
                "command": list(command),
                "env": dict(env),
                "cwd": os.getcwd(),
                "parent": os.getpid(),
            }
            order |= {"fds": [1, 2, *pass_fds]}
            sent = [stdout.fileno(), stderr.fileno(), *pass_fds]
            _adopt(True)
            try:
                text = json.dumps(order).encode()
                socket.send_fds(self._line, [len(text).to_bytes(8)], sent)
                self._line.sendall(text)
                pid = int.from_bytes(_exactly(self._line, 8))
            finally:
                _adopt(False)
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(pid, pid)
        if read is not None:
            stdout.close()
        return Forked(pid, read)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._line.close()
            self._process.wait()

    def _start(self) -> None:
        self._line, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from tests.fork_server import serve; serve({theirs.fileno()})"
        )
        threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, " " * LONGEST_COMMAND],
                env=os.environ | threads,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        PIDS.add(self._process.pid)


class Forked:
    """What of `subprocess.Popen` those use who start GMIs."""

    def __init__(self, pid: int, stdout=None) -> None:
        self.pid, self.stdout, self.returncode = pid, stdout, None

    def wait(self) -> int:
        """Reap it. Returns its exit code, negative for a signal."""
        if self.returncode is None:
            with suppress(ChildProcessError):
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)


def serve(connection_fd: int) -> None:
    """Fork until the test process closes its end. Returns in it and in no child: these exit."""
    for name in LOADED:
        import_module(name)
    line = socket.socket(fileno=connection_fd)
    while True:
        head, fds, _, _ = socket.recv_fds(line, 8, 250)
        if not head:
            return
        order = json.loads(_exactly(line, int.from_bytes(head)))
        theirs, ours = os.pipe()
        middle = os.fork()
        if middle == 0:
            pid = os.fork()
            if pid == 0:
                os.close(theirs), os.close(ours)
                _become(order, fds, line)
            os.write(ours, pid.to_bytes(8))
            os._exit(0)
        os.close(ours)
        pid = os.read(theirs, 8)
        os.close(theirs)
        os.waitpid(middle, 0)  # now the child is the test process's
        for fd in fds:
            os.close(fd)
        line.sendall(pid)


def _become(order, fds, line) -> None:
    """Run the module of an order in this process, and exit."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # as whoever starts it does, until it is ready for them
    os.setpgid(0, 0)
    line.close()
    high = [fcntl(fd, F_DUPFD_CLOEXEC, HIGH) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(high, order["fds"], strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path.remove(str(ROOT))
    while os.getppid() != order["parent"]:
        time.sleep(0.001)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _show(order["command"])
    module, *arguments = order["command"][order["command"].index("-m") + 1 :]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


def _show(command) -> None:
    """Make this the command line that others see, in the memory of the one that started the server.

    Spaces before the last argument fill it to its length.
    """
    numbers = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(numbers[45]), int(numbers[46])  # arg_start and arg_end, see proc(5)
    *most, last = (text.encode() for text in command)
    seen = b"\0".join(most) + b"\0", b"\0" + last + b"\0"
    fill = end - start - sum(map(len, seen))
    assert fill >= 0, f"a command line of {sum(map(len, seen))} bytes"
    ctypes.memmove(start, seen[0] + b" " * fill + seen[1], end - start)


def _adopt(adopts: bool) -> None:
    """Have the kernel give this process the children of descendants that end, or not."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def _exactly(line, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        got = line.recv(size - len(parts))
        assert got, "the fork server has ended"
        parts += got
    return parts
