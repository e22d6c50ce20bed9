"""The process of a trial: how it is started, what it leaves, how it has ended."""

import ctypes
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.files import write_atomically
from gmi_drl.launch.group_leader import GroupLeader
from gmi_drl.launch.launchers import LOCAL
from gmi_drl.launch.signals import TRIAL_VARIABLE
from gmi_drl.launch.sweep.slots import Slot, bind
from gmi_drl.launch.sweep.sweep_file import Sweep, Trial
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder

OURS = (sys.executable, "-P", "-c", "from gmi_drl.cli import main; main()", "train")
SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2): a trial is told when its sweep has died, so that none goes on unseen."""

LOOKED_BYTES = 4096

_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Ended:
    """How a trial has ended for good.

    Args:
        exit_code: As in `subprocess`; 0 is good.
        seconds: Of its last process.
        early: Whether the sweep has stopped it early.
    """

    exit_code: int
    seconds: float
    early: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it has neither ended well nor been stopped."""
        return self.exit_code != 0 and not self.early


class TrialProcess:
    """A trial that runs in a slot.

    Args:
        folder: Of the sweep.
        sweep: What it runs.
        trial: One of its trials.
        slot: Where.
        on_fork: Called in the new process before it becomes the trial; it leads its group.
    """

    def __init__(
        self, folder: Path, sweep: Sweep, trial: Trial, slot: Slot, on_fork: Callable[[], None] = lambda: None
    ) -> None:
        self.folder, self.trial, self.slot, self._is_held = folder, trial, slot, sweep.command is not None
        self._is_asked = self.is_stopped_early = False
        self.started = time.monotonic()
        log = log_file(folder, trial)
        try:
            log.parent.mkdir(exist_ok=True)
            with log.open("ab") as output:
                self.leader = GroupLeader(self._start(command_of(folder, sweep, trial), output, on_fork))
        except OSError as error:
            raise MachineError(f"{trial.name} cannot be started: {error.strerror or error}") from None

    def _start(
        self, command: Sequence[str], output: BinaryIO, on_fork: Callable[[], None]
    ) -> "subprocess.Popen[bytes]":
        sweep_pid, cores = os.getpid(), self.slot.cores

        def prepare() -> None:
            _libc.prctl(SET_DEATH_SIGNAL, signal.SIGTERM)
            if os.getppid() != sweep_pid:
                os._exit(1)
            on_fork()
            bind(cores)

        return subprocess.Popen(
            command,
            env={**os.environ, **self.slot.environment(self._is_held), TRIAL_VARIABLE: self.trial.name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=prepare,
        )

    def stop(self, early: bool = False) -> None:
        """Ask it to end; our trainings save a checkpoint. Nothing happens if it was asked already."""
        if self._is_asked:
            return
        self._is_asked, self.is_stopped_early = True, early
        os.kill(self.leader.pid, signal.SIGTERM)

    def end(self) -> Ended | None:
        """How it has ended; None while it runs."""
        code = self.leader.exit_code(0)
        if code is None:
            return None
        self.kill()
        return Ended(code, time.monotonic() - self.started, self.is_stopped_early)

    def kill(self) -> None:
        """End it at once, with its process group."""
        self.leader.end()
        self.leader.close()


def command_of(folder: Path, sweep: Sweep, trial: Trial) -> list[str]:
    """The command line of a trial; a training goes on from its last checkpoint, if it has one."""
    if sweep.command is not None:
        return words_of(sweep.command, trial)
    run, by = folder / trial.name, ["--launcher", sweep.launcher] if sweep.launcher != LOCAL else []
    if list_checkpoints(RunFolder(run).checkpoints):
        return [*OURS, "--resume", str(run), *by]
    settings = [word for key, value in trial.settings.items() for word in ("--set", f"{key}={value}")]
    return [*OURS, *sweep.arguments, "--seed", str(trial.seed), *settings, "--run-dir", str(run), *by]


def check_command(command: str, trials: Sequence[Trial]) -> None:
    """Check that another program can be started, and that its trials differ in what it is given.

    Raises:
        UsageError: if it is no command line, there is no such program, or it does not take the seeds or a setting.
    """
    if taken := {"seed", "name"} & trials[0].settings.keys():
        raise UsageError(f"--set {', '.join(sorted(taken))}: --command has its own: choose another name")
    if ignored := [key for key in trials[0].settings if f"{{{key}}}" not in command]:
        raise UsageError(f"--command does not use --set {', '.join(ignored)}: put {{{ignored[0]}}} where it belongs")
    seeds = {trial.seed for trial in trials}
    if len(seeds) > 1 and "{seed}" not in command and "{name}" not in command:
        raise UsageError(
            f"--command is the same for {len(seeds)} seeds: put {{seed}} where it belongs, or give --seeds 0"
        )
    program = words_of(command, trials[0])[0]
    if shutil.which(program) is None:
        raise UsageError(f"--command: there is no program {program}")


def words_of(command: str, trial: Trial) -> list[str]:
    """The words of another program's command line, with `{seed}`, `{name}` and `{KEY}` filled in.

    Raises:
        UsageError: if it is no command line.
    """
    values = {"seed": str(trial.seed), "name": trial.name, **trial.settings}
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--command: {error}: quote it as a shell needs it") from None
    if not words:
        raise UsageError("--command is empty")
    return [_filled(word, values) for word in words]


def _filled(word: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        word = word.replace(f"{{{key}}}", value)
    return word


def log_file(folder: Path, trial: Trial) -> Path:
    """The file of what a trial prints."""
    return folder / "logs" / f"{trial.name}.log"


def last_line(folder: Path, trial: Trial) -> str:
    """The last line that a trial has printed, of its log's last `LOOKED_BYTES`."""
    try:
        with log_file(folder, trial).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOOKED_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:  # someone has removed it, which must not end the sweep
        return "its log cannot be read"
    return next((line.strip() for line in reversed(lines) if line.strip()), "it has printed nothing")


def read_ended(folder: Path, trial: Trial) -> Ended | None:
    """How a trial has ended, by the file beside its folder or by the state of its run; None if it has not."""
    file = _outcome_file(folder, trial)
    try:
        return Ended(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):  # it is written whole; a broken one is as none
        is_done = RunFolder(folder / trial.name).read_state()["state"] == "done"
        return Ended(0, 0.0) if is_done else None


def write_ended(folder: Path, trial: Trial, ended: Ended) -> None:
    """Keep how a trial has ended."""
    _outcome_file(folder, trial).parent.mkdir(exist_ok=True)
    write_atomically(_outcome_file(folder, trial), json.dumps(asdict(ended)) + "\n")


def forget_failures(folder: Path, trials: Iterable[Trial]) -> int:
    """Let the trials that have failed wait again. Returns how many."""
    ended = [(trial, read_ended(folder, trial)) for trial in trials]
    failed = [trial for trial, how in ended if how is not None and how.has_failed]
    for trial in failed:
        _outcome_file(folder, trial).unlink()
    return len(failed)


def _outcome_file(folder: Path, trial: Trial) -> Path:
    return folder / "ended" / f"{trial.name}.json"
