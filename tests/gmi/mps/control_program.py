"""A stand-in for nvidia-cuda-mps-control, which keeps its habits, and some bad ones that it is told to have.

Its grammar is that of NVIDIA's "Legacy MPS v2 Interface" (https://docs.nvidia.com/deploy/mps): `-d` starts a daemon
that lives in CUDA_MPS_PIPE_DIRECTORY; without an option each line of standard input is a command. A command that it
does not know fails, and so does one that comes while another program is answered. What client, daemon and server say
to each other is its own.

Habits are files in the folder FAKE_MPS: `slow` (seconds before an answer), `refuses_start` (its words),
`ignores_sigterm`, `hangs_at_COMMAND`, `says_COMMAND` (its words), `attaches_nobody`,
`knows_no_t` (at quit), `not_ready` and `busy` (so many times, then it is or is not). `log` tells there what happened.
"""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PIPES = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
LOGS = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"))
HABITS = Path(os.environ.get("FAKE_MPS", "/nowhere"))
KNOWN = (
    *("start_server", "get_server_list", "get_server_status", "get_client_list", "ps"),
    *("terminate_client", "set_active_thread_percentage", "quit"),
)
MOST = 65536


def habit(name):
    """What a habit says; None if there is none."""
    try:
        return (HABITS / name).read_text()
    except OSError:
        return None


def log(text):
    with suppress(OSError), (HABITS / "log").open("a") as file:
        file.write(f"{text}\n")


def talk(name, message):
    """One question to a socket in the pipe directory."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(PIPES / name))
        line.sendall(message.encode())
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(MOST), b"")).decode()


def command_line():
    """Each line of standard input to the daemon."""
    code = 0
    if times := int(habit("busy") or 0):
        (HABITS / "busy").write_text(str(times - 1))
    with suppress(OSError):
        turn = os.open(PIPES, os.O_RDONLY)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            times = 1
    if times:
        print("Cannot send command to MPS control daemon process")
        return 1
    for line in sys.stdin:
        try:
            failed, _, answer = talk("control", f"command {line.strip()}").partition(" ")
        except OSError:
            print("Cannot find MPS control daemon process")
            return 1
        print(answer, end="\n" if answer else "")
        code = code or int(failed or 1)
    return code


def start():
    """Become a daemon, when the socket is there."""
    if (words := habit("refuses_start")) is not None:
        print(words)
        return 1
    with suppress(OSError):
        talk("control", "command get_server_list")
        print("An instance of this daemon is already running")
        return 1
    (PIPES / "control").unlink(missing_ok=True)
    line = socket.socket(socket.AF_UNIX)
    line.bind(str(PIPES / "control"))
    line.listen(64)
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    with open(os.devnull, "r+b") as nothing, (LOGS / "control.log").open("ab") as output:
        for number, file in enumerate((nothing, output, output)):
            os.dup2(file.fileno(), number)
    (PIPES / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
    if habit("ignores_sigterm") is not None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log(f"daemon {os.getpid()} for {os.environ.get('CUDA_VISIBLE_DEVICES')}")
    Daemon().serve(line)
    return 0


class Daemon:
    def __init__(self):
        self.server, self.refused = None, 0

    def serve(self, line):
        while True:
            connection, _ = line.accept()
            with connection, suppress(OSError):
                word, _, rest = connection.recv(MOST).decode().partition(" ")
                if word == "client":
                    connection.sendall(self.take_client())
                    continue
                code, answer = self.answer(rest.split())
                connection.sendall(f"{code} {answer}".encode())
                if rest.startswith("quit") and code == 0:
                    break

    def take_client(self):
        if habit("attaches_nobody") is not None:
            return b"nobody"
        if not self.is_ready():
            return b"busy"
        self.start_server("-uid", str(os.getuid()))
        return b"server"

    def is_ready(self):
        self.refused += 1
        return self.refused > int(habit("not_ready") or 0)

    def start_server(self, option, user):
        if option != "-uid" or int(user) != os.getuid():
            raise ValueError(f"{option} {user} is nobody here")
        if self.server is None or self.server.poll() is not None:
            program = Path(sys.argv[0]).with_name("nvidia-cuda-mps-server")
            self.server = subprocess.Popen([program], stdin=subprocess.DEVNULL)
            while not (PIPES / "server").exists() and self.server.poll() is None:
                time.sleep(0.005)
        return ""

    def answer(self, words):
        command, *arguments = words or [""]
        time.sleep(float(habit("slow") or 0))
        if habit(f"hangs_at_{command}") is not None:
            time.sleep(3600)
        if (said := habit(f"says_{command}")) is not None:
            return 0, said
        if command not in KNOWN:
            return 1, f"Unknown command: {command}"
        try:
            return 0, getattr(self, command)(*arguments)
        except (TypeError, ValueError, OSError) as error:
            return 1, f"{command}: {error}"

    def get_server_list(self):
        return str(self.server.pid) if self.server and self.server.poll() is None else ""

    def get_server_status(self, server):
        self.require(server)
        return "ACTIVE" if self.is_ready() else "INITIALIZING"

    def get_client_list(self, server):
        self.require(server)
        return talk("server", "clients")

    def ps(self):
        rows = [f"{pid} 0 {self.server.pid} GPU 4026531836 client" for pid in self.pids()]
        return "\n".join(["PID ID SERVER DEVICE NAMESPACE COMMAND", *rows])

    def set_active_thread_percentage(self, server, percentage):
        self.require(server)
        return f"{float(percentage):.1f}"

    def terminate_client(self, server, client):
        self.require(server)
        if talk("server", f"terminate {int(client)}") != "done":
            raise ValueError(f"no client {client}")
        return ""

    def quit(self, *patience):
        if patience and (len(patience) != 2 or patience[0] != "-t" or habit("knows_no_t") is not None):
            raise ValueError(f"{patience} are no arguments")
        deadline = time.monotonic() + (float(patience[1]) if patience else 3600.0)
        while (left := self.pids()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            talk("server", f"terminate {pid}")
        if self.get_server_list():
            self.server.terminate()
            self.server.wait()
        (PIPES / "control").unlink(missing_ok=True)
        (PIPES / "nvidia-cuda-mps-control.pid").unlink(missing_ok=True)
        log("daemon quit")
        return ""

    def pids(self):
        return talk("server", "clients").split() if self.get_server_list() else []

    def require(self, server):
        if not server.isdecimal() or server != self.get_server_list():
            raise ValueError(f"no server {server}")


if __name__ == "__main__":
    sys.exit(start() if sys.argv[1:] == ["-d"] else command_line())
