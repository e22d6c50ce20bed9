"""Starts a private MPS daemon for one GPU."""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gmi_drl.errors import MachineError
from gmi_drl.gmi.mps.control import PROGRAM, Control, ControlError

START_S = 30.0
ASK_EVERY_S = 0.1


def start(control: Control, gpu: str, flags: Sequence[str] = ()) -> None:
    """Start a daemon for one GPU and wait until it answers and its server runs. Its folders must not exist yet.

    Each GPU has a daemon of its own: after a fault on one GPU a server refuses new clients on all GPUs that it serves
    (https://docs.nvidia.com/deploy/mps, "Limitations").

    Args:
        control: The daemon's folders.
        gpu: The GPU's UUID: the daemon's indices differ from its clients'.
        flags: Further options of the daemon.

    Raises:
        MachineError: if it does not start.
    """
    for folder in (control.pipes, control.logs):
        folder.mkdir(mode=0o700, parents=True)
    printed = control.logs / "start"  # a file, because a daemon would hold a pipe open
    command = [PROGRAM, "-d", *flags]
    try:
        with printed.open("wb") as output:
            ended = subprocess.run(
                command,
                env=control.whole_environment | {"CUDA_VISIBLE_DEVICES": gpu},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=START_S,
                check=False,
                start_new_session=True,  # Ctrl-C is for the launcher
                cwd="/",
            )
    except subprocess.TimeoutExpired:
        raise MachineError(f"`{' '.join(command)}` for {gpu} has not returned within {START_S:.0f} s") from None
    except OSError as error:
        raise MachineError(f"{PROGRAM} cannot be run: {error.strerror}; it comes with NVIDIA's driver") from None
    if ended.returncode != 0:
        text = f"`{' '.join(command)}` for {gpu} exited with {ended.returncode}"
        raise MachineError(f"{text}: {_end_of(printed) or _end_of(control.logs / 'control.log') or 'no output'}")
    _wait_for(control, gpu)
    with suppress(ControlError):  # one that does not know this starts the server when the first client comes
        _start_server(control)


def _start_server(control: Control) -> None:
    """Now, as clients that come while it starts are refused; they try again, too (`comm/memory/cuda_context.py`)."""
    control.start_server(os.getuid())
    deadline = time.monotonic() + START_S
    while control.is_starting() and time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)


def _wait_for(control: Control, gpu: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            control.servers()
        except ControlError as error:
            if time.monotonic() > deadline:
                log = _end_of(control.logs / "control.log")
                raise MachineError(f"the MPS daemon for {gpu} does not answer: {error}; its log ends: {log}") from None
            time.sleep(ASK_EVERY_S)
        else:
            return


def _end_of(log: Path) -> str:
    """The last three lines of a log."""
    try:
        return " | ".join(log.read_text(errors="replace").splitlines()[-3:])
    except OSError:
        return ""
