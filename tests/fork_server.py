"""Python processes that are forked from one that has imported torch already, which saves two seconds each.

What a test sees is the same: a child of this process with the environment, descriptors, folder, process group, signal
mask and network namespace (`ip netns exec`) that it was given, whose command line others see. For another
LD_LIBRARY_PATH there is another server. What else must be there when a program is executed (LD_PRELOAD), and other
options of Python than `-P` and `-u`, need a process that is started: `ForkServer.popen` starts one then.
"""

import ctypes
import gc
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
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

ROOT = Path(__file__).parent.parent
PIDS: set[int] = set()
"""Of all such processes that this one has started."""

LOADED = (
    "torch",
    "mujoco",
    "rich_click",
    "gmi_drl.roles.manager",
    "gmi_drl.roles.training.holistic",
    "gmi_drl.roles.decoupled.agent",
    "gmi_drl.roles.decoupled.trainer",
    "gmi_drl.roles.dedicated.simulator",
)
"""What nearly every GMI imports."""
IF_INSTALLED = ("tensordict",)
"""What every version of rsl_rl imports, which takes as long as torch."""
SPAWNING = {
    "gmi_drl.launch.processes.gmi_process": False,
    "gmi_drl.launch.task_info": False,
    "gmi_drl.launch.nodes.supervisor_starters": True,
}
"""The modules that start GMIs or what starts them, with whether it does."""
LIBRARIES = "LD_LIBRARY_PATH"
AT_EXECUTION = ("LD_PRELOAD", "PYTHONHASHSEED", "MUJOCO_GL")
FLAGS = ("-P", "-u")
IN_NETWORK = ["ip", "netns", "exec"]
CLONE_NEWNET = 0x40000000
LONGEST_COMMAND = 4096
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
EXECUTABLE, STARTED_WITH = sys.executable, dict(os.environ)
PROGRAM = str(Path(EXECUTABLE).with_name("gmi-drl"))
FORKS_GMIS = "forks GMIs"
"""The end of the command line of a server that a forked process has."""
HIGH = 500
"""Where descriptors wait before they get their numbers."""


class ForkServer:
    """The process that forks, one for each LD_LIBRARY_PATH, started when it is first needed."""

    def __init__(self) -> None:
        self._lock, self._processes, self._lines, self.is_nested = threading.Lock(), [], {}, False

    def popen(self, command, *, env=None, gmis_are_forked=False, preexec_fn=None, **more):
        """As `subprocess.Popen`; a forked process dies with this one, without a `preexec_fn`.

        Args:
            gmis_are_forked: Whether the GMIs that the process starts are forked, too, from itself.
        """
        started, command = command, [str(word) for word in command]
        network, command = (command[3], command[4:]) if command[:3] == IN_NETWORK else (None, command)
        given = dict(os.environ if env is None else env)
        if not _can_be_forked(command, given) or (self.is_nested and given.get(LIBRARIES) not in self._lines):
            return subprocess.Popen(started, env=env, preexec_fn=preexec_fn, **more)
        return Forked(self, command, network, gmis_are_forked, env=given, **more)

    def run(self, command, *, timeout=None, check=False, **more):
        """As `subprocess.run`, with the GMIs of the process forked, too."""
        if more.pop("capture_output", False):
            more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.popen(command, gmis_are_forked=True, **more) as process:
            try:
                ended = subprocess.CompletedProcess(command, None, *process.communicate(timeout=timeout))
            except BaseException:
                process.kill()
                raise
        ended.returncode = process.returncode
        if check:
            ended.check_returncode()
        return ended

    def fork(self, order, fds) -> int:
        """Have a process forked that carries out `order`, with these descriptors. Returns its id."""
        with self._lock:
            libraries = order["env"].get(LIBRARIES)
            if libraries not in self._lines:
                self._start(libraries)
            line = self._lines[libraries]
            _adopt(True)
            try:
                text = json.dumps(order | {"dies": not self.is_nested}).encode()
                socket.send_fds(line, [len(text).to_bytes(8)], fds)
                line.sendall(text)
                return int.from_bytes(_exactly(line, 8))
            finally:
                _adopt(False)

    def close(self) -> None:
        """End it."""
        for line in self._lines.values():
            line.close()
        for process in self._processes:
            process.wait()

    def _start(self, libraries) -> None:
        self._lines[libraries], theirs = socket.socketpair()
        code = (
            f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from tests.fork_server import serve; serve({theirs.fileno()})"
        )
        given = {name: value for name, value in os.environ.items() if name != LIBRARIES}
        given |= {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, " " * LONGEST_COMMAND],
                env=given if libraries is None else given | {LIBRARIES: libraries},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        self._processes.append(process)
        PIDS.add(process.pid)

    @classmethod
    def of_this_process(cls) -> "ForkServer":
        """One that is forked from this process, which has imported all of it."""
        server = cls()
        server.is_nested = True
        ours, theirs = socket.socketpair()
        server._lines[os.environ.get(LIBRARIES)] = ours
        if os.fork() == 0:
            os.setpgid(0, 0)
            _show([EXECUTABLE, FORKS_GMIS])
            ours.close()
            for fd in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), fd)
            serve(theirs.detach())
            os._exit(0)
        theirs.close()
        return server


SERVER = ForkServer()


class Forked(subprocess.Popen):
    """`subprocess.Popen` whose process is forked by a server."""

    def __init__(self, server, command, network, gmis_are_forked, **more) -> None:
        self._server, self._network, self._gmis_are_forked = server, network, gmis_are_forked
        super().__init__(command, **more)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest) -> None:
        *_, stdin, p2cwrite, c2pread, stdout, errread, stderr = rest[:9]
        start_new_session, process_group = rest[-2:]
        given = [number if fd == -1 else fd for number, fd in enumerate((stdin, stdout, stderr))]
        order = {
            "command": list(args),
            "env": env,
            "cwd": str(cwd or os.getcwd()),
            "parent": os.getpid(),
            "group": os.getpgrp() if process_group == -1 else process_group,
            "session": start_new_session,
            "mask": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "forks": self._gmis_are_forked,
            "network": self._network,
            "fds": [0, 1, 2, *pass_fds],
        }
        self.pid = self._server.fork(order, [*given, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(stdin, p2cwrite, c2pread, stdout, errread, stderr)
        if process_group == 0:
            with suppress(ProcessLookupError, PermissionError):
                os.setpgid(self.pid, self.pid)


def spawning(server, module):
    """What a module of `SPAWNING` has as `subprocess`, which then forks."""
    popen = partial(server.popen, gmis_are_forked=SPAWNING[module])
    return SimpleNamespace(**(vars(subprocess) | {"Popen": popen}))


def serve(connection_fd: int) -> None:
    """Fork until the test process closes its end. Returns in it and in no child: these exit."""
    for name in (*LOADED, *filter(find_spec, IF_INSTALLED)):
        import_module(name)
    gc.freeze()  # collections in the children would look through it, and so copy it
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


def _can_be_forked(command, env) -> bool:
    if "COVERAGE_PROCESS_START" in os.environ or sum(map(len, command)) + len(command) > LONGEST_COMMAND:
        return False
    if any(env.get(name) != STARTED_WITH.get(name) for name in AT_EXECUTION):
        return False
    if command[0] == PROGRAM:
        return True
    following = next((word for word in command[1:] if word not in FLAGS), "-")
    return command[0] == EXECUTABLE and (following in ("-m", "-c") or not following.startswith("-"))


def _become(order, fds, line) -> None:
    """Run the program of an order in this process, and exit."""
    if order["session"]:
        os.setsid()
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
    with suppress(ValueError):
        sys.path.remove(str(ROOT))
    if order["network"]:
        with open(f"/run/netns/{order['network']}") as network:
            assert ctypes.CDLL(None).setns(network.fileno(), CLONE_NEWNET) == 0
    while os.getppid() != order["parent"]:
        time.sleep(0.001)
    if not order["session"]:
        # Not before: the death of a parent in another group would end all of this one, if a test has stopped a process.
        os.setpgid(0, order["group"])
    if order["dies"]:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _show(order["command"])
    if order["forks"]:
        server = ForkServer.of_this_process()
        for name in SPAWNING:
            import_module(name).subprocess = spawning(server, name)
    signal.pthread_sigmask(signal.SIG_SETMASK, order["mask"])
    _run(order["command"])
    sys.exit()


def _run(command) -> None:
    """Run the module, code or file of a command line as `__main__`."""
    words = command if command[0] == PROGRAM else command[1:]
    flags = [word for word in words[:2] if word in FLAGS]
    words, is_safe = words[len(flags) :], "-P" in flags
    if words[0] == "-m":
        module, sys.argv = words[1], words[1:]
        sys.path[:0] = [] if is_safe else [os.getcwd()]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        code, sys.argv = words[1], ["-c", *words[2:]]
        sys.path[:0] = [] if is_safe else [""]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))
    else:
        sys.argv = list(words)
        sys.path[:0] = [] if is_safe else [str(Path(words[0]).resolve().parent)]
        runpy.run_path(words[0], run_name="__main__")


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
