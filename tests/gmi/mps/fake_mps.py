"""NVIDIA's MPS and CUDA as stand-ins: programs on PATH and a library, which processes find by their environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parent
PROGRAMS = {"nvidia-cuda-mps-control": "control_program.py", "nvidia-cuda-mps-server": "server_program.py"}


def install_programs(folder: Path) -> Path:
    """Programs in `bin` and the library in `lib`."""
    (folder / "bin").mkdir()
    (folder / "lib").mkdir()
    for name, source in PROGRAMS.items():
        program = folder / "bin" / name  # with no `env` between, as the kernel shall know it by its name
        program.write_text(f"#!{sys.executable} -IS\n{(HERE / source).read_text()}")
        program.chmod(0o755)
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to compile the stand-in for libcuda")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    library = ["-Wl,-soname,libcuda.so.1", "-o", folder / "lib/libcuda.so.1", HERE / "cuda.c"]
    subprocess.run(["gcc", *flags, *library], check=True, timeout=300)
    return folder


class FakeMps:
    """What those stand-ins do: their habits, and what they tell.

    Args:
        root: For both.
        base: Where daemons have their folders.
    """

    def __init__(self, root: Path, base: Path) -> None:
        self.root, self.base = root, base

    def habit(self, name: str, words: object = "") -> None:
        """Let all daemons have it, from now on."""
        (self.root / name).write_text(str(words))

    def forget(self, name: str) -> None:
        """Let them have it no more."""
        (self.root / name).unlink()

    def log(self) -> list[str]:
        """What has happened."""
        path = self.root / "log"
        return path.read_text().splitlines() if path.exists() else []

    def processes(self) -> list[psutil.Process]:
        """Daemons, servers and clients that live."""
        mark = f"={self.base}/".encode()
        return [process for process in psutil.process_iter() if mark in _environment(process.pid)]

    def left(self) -> list[str]:
        """All that a run should not leave: processes, and what is in the folder of all claims."""
        return [f"process {process.pid}" for process in self.processes()] + sorted(map(str, self.base.glob("*")))

    def environment(self, programs: Path) -> dict[str, str]:
        """Variables by which processes find the stand-ins."""
        return {
            "PATH": f"{programs / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{programs / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "FAKE_MPS": str(self.root),
            "GMI_DRL_MPS": str(self.base),
        }


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
