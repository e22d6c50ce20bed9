"""Make the environment of a peer, with pinned versions, in `.peers/NAME`: `python benchmarks/peers/setup.py sb3`."""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements"
ENVIRONMENTS = HERE.parents[1] / ".peers"
TORCH = "torch==2.13.0"
"""Installed before the rest and held, so that all peers and gmi-drl compute with the same one."""


def main() -> None:
    """Make the environments that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="+", choices=sorted(path.stem for path in REQUIREMENTS.glob("*.txt")))
    for peer in parser.parse_args().peers:
        make_environment(peer)


def make_environment(peer: str) -> None:
    """Install what `requirements/PEER.txt` pins, unless just that has been installed before.

    If lines were only added at its end, these alone are installed.
    """
    folder, wanted = ENVIRONMENTS / peer, (REQUIREMENTS / f"{peer}.txt").read_text()
    ready = folder / "ready.txt"
    before = ready.read_text() if ready.is_file() else ""
    if before == wanted:
        print(f"{folder} is ready")
        return
    held = folder / "held.txt"
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    if before and wanted.startswith(before):
        lines = pinned(wanted.removeprefix(before))
        print(f"Adding {', '.join(lines)} to {folder}")
    else:
        lines = pinned(wanted)
        print(f"Making {folder}: {TORCH}, then {', '.join(lines)}")
        venv.create(folder, clear=True, with_pip=True)
        held.write_text(f"{TORCH}\n")
        subprocess.run([*pip, TORCH], check=True)
    for line in lines:  # one by one: a later line may overrule what an earlier package asks for
        subprocess.run([*pip, "--constraint", str(held), line], check=True)
    ready.write_text(wanted)
    print(f"{folder} is ready")


def pinned(requirements: str) -> list[str]:
    """The lines that name a package."""
    return [line for line in requirements.splitlines() if line and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main())
