"""Writes docs/mps_transcript.md: runs under MPS from start to end, with fakes of MPS, CUDA and NVML.

    python benchmarks/soak/mps_transcript.py

Needs what the tests need; takes a minute.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from soak_mps import living

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gmi.mps.fake_mps import FakeMps, install_programs  # noqa: E402
from tests.gmi.nvml.fake import FakeGpu, FakeNvml, compile_library  # noqa: E402

PAGE = ROOT / "docs" / "mps_transcript.md"
ROLE = ROOT / "tests" / "launch" / "mps_roles.py"
HEAD = """# The life of MPS, as a transcript

Written by `python benchmarks/soak/mps_transcript.py` against stand-ins for NVIDIA's MPS, CUDA and NVML
(`tests/gmi/mps`, `tests/gmi/nvml`): a GPU is not needed. Two GMIs of an H200 always have something in
flight. Lines that begin with `mps:` are what the stand-ins have seen: `client PID PERCENT MEMORY`, `gone PID` with
nothing in flight, `terminated PID` by `terminate_client`, `harmed by PID` if one went with
work in flight, which must not come.
"""
RUN = """
import signal, sys
from gmi_drl import run_role
from gmi_drl.cli import _show_warning
from gmi_drl.errors import GmiError
import warnings
from gmi_drl.layout.layout import GMI, Device, Layout
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.showwarning = _show_warning
parts = (GMI(id=0, num_env=1, cores=(0,)), GMI(id=1, num_env=1, cores=(0,)))
layout = Layout(backend=sys.argv[1], share_cores=True, devices=(Device(kind="gpu", gmis=parts),))
try:
    print("GMIs return", run_role(sys.argv[2], layout, {"seconds": float(sys.argv[3])}, run_dir=sys.argv[4]))
except GmiError as error:
    sys.exit(f"exit {error.exit_code}: {error}")
except KeyboardInterrupt:
    sys.exit("ended by Ctrl-C")
"""


class Machine:
    """A fake H200, and a record of what happens there, line by line."""

    def __init__(self, folder: Path, base: Path, programs: Path, library: Path) -> None:
        (folder / "machine").mkdir()
        (folder / "habits").mkdir()
        FakeNvml(folder / "machine").add(FakeGpu())
        self.folder, self.fake, self.lines = folder, FakeMps(folder / "habits", base), list[str]()
        own = self.fake.environment(programs) | {"FAKE_NVML": str(folder / "machine"), "PYTHONPATH": str(ROOT)}
        own |= {"GMI_DRL_CLAIMS": str(folder / "claims"), "COLUMNS": "120"}
        self.environment = os.environ | own | {"LD_LIBRARY_PATH": f"{library.parent}:{own['LD_LIBRARY_PATH']}"}

    def launch(self, backend: str, seconds: float) -> subprocess.Popen[str]:
        """Start a run."""
        self.lines.append(f"$ run two GMIs with `backend: {backend}`")
        command = [sys.executable, "-c", RUN, backend, f"{ROLE}:Works", str(seconds), str(self.folder / "run")]
        kinds = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, env=self.environment, cwd=self.folder, start_new_session=True, **kinds)  # type: ignore[call-overload,no-any-return]

    def command(self, *words: str) -> str:
        """Run a command. Returns its output."""
        ended = subprocess.run(
            words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        return ended.stdout + ended.stderr

    def wait_for_clients(self) -> None:
        """Wait until both GMIs work."""
        deadline = time.monotonic() + 120
        while sum(line.startswith("client") for line in self.fake.log()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)

    def end(self, run: subprocess.Popen[str]) -> None:
        """Wait for the end of a run; record its output, what MPS saw, and what is left."""
        self.lines += [line for line in run.communicate(timeout=120)[0].splitlines() if not line.startswith("  ")]
        self.tell_rest()

    def tell_rest(self) -> None:
        """What MPS saw, and what is left when a watchdog has had its time."""
        started, deadline = time.monotonic(), time.monotonic() + 120
        while living(self.fake.base) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.lines += [f"mps: {line}" for line in self.fake.log()]
        left = [*map(str, living(self.fake.base)), *self.fake.left()]
        self.lines.append(f"left after {time.monotonic() - started:.1f} s: {', '.join(left) or 'nothing'}")


def start_and_proof(machine: Machine) -> None:
    """Start, proof and end in order."""
    run = machine.launch("mps", 2.0)
    machine.wait_for_clients()
    (pipes,) = machine.fake.base.glob("*/0/pipe")
    machine.environment["CUDA_MPS_PIPE_DIRECTORY"] = str(pipes)
    for command in ("get_server_list", "ps"):
        said = machine.command("sh", "-c", f"echo {command} | nvidia-cuda-mps-control").splitlines()
        machine.lines += [f"$ echo {command} | nvidia-cuda-mps-control", *said]
    del machine.environment["CUDA_MPS_PIPE_DIRECTORY"]
    machine.end(run)


def no_attachment(machine: Machine) -> None:
    """A client that does not attach is an error."""
    machine.fake.habit("attaches_nobody")
    machine.end(machine.launch("mps", 2.0))


def no_attachment_under_auto(machine: Machine) -> None:
    """Under `auto` it is a warning, and GMIs share the GPU plainly."""
    machine.fake.habit("attaches_nobody")
    machine.end(machine.launch("auto", 2.0))


def no_mps_under_auto(machine: Machine) -> None:
    """Without MPS, `auto` prints that and shares plainly."""
    machine.fake.habit("refuses_start", "Cannot start: the GPU is in use by another user's MPS")
    machine.end(machine.launch("auto", 1.0))


def ctrl_c(machine: Machine) -> None:
    """Ctrl-C: clients drain, the daemon quits."""
    run = machine.launch("mps", 600.0)
    machine.wait_for_clients()
    machine.lines.append("^C")
    run.send_signal(signal.SIGINT)
    machine.end(run)


def killed(machine: Machine) -> None:
    """SIGKILL of the launcher: its watchdog ends clients and daemon."""
    run = machine.launch("mps", 600.0)
    machine.wait_for_clients()
    machine.lines.append(f"$ kill -9 {run.pid}  # the launcher")
    run.kill()
    run.communicate(timeout=120)
    machine.tell_rest()


def stale_daemon(machine: Machine) -> None:
    """SIGKILL of launcher and watchdog: the daemon stays, is told of and removed."""
    run = machine.launch("mps", 600.0)
    machine.wait_for_clients()
    (watchdog,) = [
        one for one in psutil.Process(run.pid).children() if "gmi_drl.gmi.launcher_watchdog" in " ".join(one.cmdline())
    ]
    machine.lines.append(f"$ kill -9 {watchdog.pid} {run.pid}  # the watchdog and the launcher")
    watchdog.kill()
    run.kill()
    run.communicate(timeout=120)
    time.sleep(1.0)
    for words in (["doctor"], ["doctor", "--remove-stale"]):
        said = machine.command(sys.executable, "-c", "from gmi_drl.cli import main; main()", *words).splitlines()
        rows = [number for number, line in enumerate(said) if line.startswith("stale MPS")]
        machine.lines += [f"$ gmi-drl {' '.join(words)}", *(line for row in rows for line in said[row : row + 2])]
    machine.tell_rest()


def hanging_quit(machine: Machine) -> None:
    """A daemon that hangs at `quit` and ignores SIGTERM is ended by its process id."""
    machine.fake.habit("hangs_at_quit")
    machine.fake.habit("ignores_sigterm")
    machine.end(machine.launch("mps", 1.0))


SCENES: tuple[Callable[[Machine], None], ...] = (
    *(start_and_proof, no_attachment, no_attachment_under_auto, no_mps_under_auto),
    *(ctrl_c, killed, stale_daemon, hanging_quit),
)


@contextmanager
def machine_for(scene: int, programs: Path, library: Path) -> Iterator[Machine]:
    """The machine of one scene. Its remaining processes are killed at the end."""
    folder = programs / str(scene)
    folder.mkdir()
    with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as base:
        try:
            yield Machine(folder, Path(base), programs, library)
        finally:
            for process in living(Path(base)):
                with suppress(psutil.Error):
                    process.kill()


def main() -> None:
    """Run all scenes, and write the page."""
    parts = [HEAD]
    with tempfile.TemporaryDirectory(prefix="transcript-") as path:
        programs = install_programs(Path(path))
        library = compile_library(programs)
        for number, scene in enumerate(SCENES):
            with machine_for(number, programs, library) as machine:
                scene(machine)
                text = "\n".join(machine.lines)
            print(text, flush=True)
            parts.append(f"## {(scene.__doc__ or '').rstrip('.')}\n\n```\n{text}\n```\n")
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
