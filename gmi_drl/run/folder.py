"""The folder of a run: its paths, small files, lock and state."""

import fcntl
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from gmi_drl.config.run_config import RunConfig, load_config
from gmi_drl.errors import InUseError, MachineError, UsageError
from gmi_drl.files import dump_yaml, load_yaml, write_atomically
from gmi_drl.layout.layout import Layout
from gmi_drl.processes.starts import start_of
from gmi_drl.run import RUNS
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.process_names import file_name_of
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.spaces import vector

LOCK = ".lock"
STATE = {"state": str, "message": str, "host": str | None}
"""Entries of `state.json` that every reader needs, with their types."""

TASK_FACTS = {
    "num_obs": "numbers of an observation",
    "num_actions": "of an action",
    "action_bounds": "bounds of actions",
    "observation": "parts of the observation",
    "action": "the action",
    "frame_skip": "frames of a step",
}
"""Entries of `task.json`, and their names in messages."""

LISTED = 5
"""Names of files in an error message, at most."""

RECORDED_PACKAGES = ("gmi-drl", "torch", "numpy", "mujoco", "mujoco-warp", "warp-lang", "safetensors", "pydantic")


@dataclass(frozen=True)
class RunFolder:
    """Paths and small files of one run. All but logs and metrics are written atomically.

    Args:
        path: Of the folder.
        stays: False if it is removed when its GMIs have ended: then errors quote the end of a log, not its path.
        was_there: Whether the user had made it before the run: then it stays, empty, if no run begins.
    """

    path: Path
    stays: bool = True
    was_there: bool = field(default=False, compare=False)

    @property
    def layout_file(self) -> Path:
        """`layout.yaml`."""
        return self.path / "layout.yaml"

    @property
    def config_file(self) -> Path:
        """`config.yaml`."""
        return self.path / "config.yaml"

    @property
    def metrics_file(self) -> Path:
        """`metrics.jsonl`, one row per iteration."""
        return self.path / "metrics.jsonl"

    @property
    def dropped_file(self) -> Path:
        """`metrics.dropped.jsonl`, rows of iterations that were repeated after the run went back to a checkpoint."""
        return self.path / "metrics.dropped.jsonl"

    @property
    def checkpoints(self) -> Path:
        """`checkpoints/`, one folder each."""
        return self.path / "checkpoints"

    def policy(self, name: str) -> "RunFolder":
        """The folder of one of several policies: that of a run with it alone, but for logs and metrics."""
        return RunFolder(self.path / "policies" / name)

    def frozen(self, name: str) -> "RunFolder":
        """The folder of a copy of another run's policy, which acts in this run and learns nothing."""
        return RunFolder(self.path / "frozen" / name)

    @property
    def learning(self) -> list["RunFolder"]:
        """The folders that have the checkpoints of this run: those of several policies that learn, or this one."""
        return [RunFolder(path) for path in sorted(self.path.glob("policies/*"))] or [self]

    def resumable(self) -> list[Path]:
        """The checkpoints that a run can go on from, the newest last; a training may remove them at any time.

        Of several policies they are those of the first, of iterations that all have: policies save at the same
        iterations, but one may be an iteration behind another when a run ends.
        """
        first, *others = [list_checkpoints(folder.checkpoints) for folder in self.learning]
        names = [{path.name for path in saved} for saved in others]
        return [path for path in first if all(path.name in those for those in names)]

    def newest_checkpoint(self) -> Path:
        """The folder of the newest checkpoint; a training may remove it at any time.

        Raises:
            UsageError: if there is none.
        """
        saved = list_checkpoints(self.checkpoints)
        if not saved and (several := sorted(one.name for one in self.path.glob("policies/*"))):
            which = ", ".join(several)
            raise UsageError(f"{self.path} has several policies, {which}: name one, as {self.policy(several[0]).path}")
        if not saved:
            raise UsageError(f"{self.path} has no complete checkpoint yet: a training saves its first at once")
        return saved[-1]

    @property
    def rendezvous_folder(self) -> Path:
        """Folder for the rendezvous of a launch; removed after it."""
        return self.path / ".rendezvous"

    def log_file(self, number: int) -> Path:
        """Output of a process, by its number: that of a GMI is its id."""
        return self.path / "logs" / f"{file_name_of(number)}.log"

    def create(self) -> None:
        """Make the folders of a new run. A run there without a checkpoint is replaced.

        Raises:
            UsageError: if there is a run with a checkpoint, or files that are not of a run.
            InUseError: if a run of several policies is working there.
            MachineError: if it cannot be written.
        """
        if any(list_checkpoints(folder.checkpoints) for folder in (self, *self.learning)):
            remedy = "continue it with `--resume` or choose another" if self.resumable() else "choose another"
            raise UsageError(f"{self.path} holds a run already: {remedy} --run-dir")
        try:
            if foreign := self._foreign():
                found = ", ".join(foreign[:LISTED]) + (f" and {len(foreign) - LISTED} more" if foreign[LISTED:] else "")
                raise UsageError(f"{self.path} is not empty and no run: it has {found}: choose another --run-dir")
            if (old := self.path / "policies").exists():
                with self.lock():
                    shutil.rmtree(old, ignore_errors=True)
            for folder in (self.checkpoints, self.log_file(0).parent):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(f"{self.path}: the run folder cannot be written: {error.strerror}") from None

    def _foreign(self) -> list[str]:
        """Names in a folder that is no run's, without the empty folders that a crash leaves."""
        if not self.path.exists() or "gmi-drl" in self.read_versions():
            return []
        empty = [folder for folder in (self.checkpoints, self.log_file(0).parent) if not any(folder.glob("*"))]
        drafts = self.path.glob(f".{self._versions_file.name}.*.draft")
        return sorted(path.name for path in {*self.path.iterdir()} - {*empty, *drafts, self.path / LOCK})

    @property
    def _versions_file(self) -> Path:
        """`versions.json`, by which a run is recognised: other folders may have a `layout.yaml`, too."""
        return self.path / "versions.json"

    def read_versions(self) -> dict[str, Any]:
        """What `versions.json` tells; empty if it is broken or not there."""
        return _read_object(self._versions_file)

    def write_setup(self, layout: Layout, config: RunConfig) -> None:
        """Write `versions.json`, which makes the folder a run's, then `layout.yaml` and `config.yaml`."""
        write_atomically(self._versions_file, json.dumps(versions(), indent=2) + "\n")
        write_atomically(self.layout_file, dump_yaml(layout))
        write_atomically(self.config_file, dump_yaml(config))

    def read_setup(self) -> tuple[Layout, RunConfig]:
        """Read the layout and configuration back.

        Raises:
            UsageError: if this is no run folder or its files are broken.
        """
        if not self.layout_file.exists():
            raise UsageError(f"{self.path} is not a run folder: {self._why_none()}")
        return load_yaml(Layout, self.layout_file), load_config(self.config_file)

    def _why_none(self) -> str:
        """Why this is no run folder, with the runs that are in it."""
        runs = sorted(file.parent.name for file in self.path.glob("*/layout.yaml"))
        if not runs:
            return (
                "it has no layout.yaml" if self.path.exists() else "there is no such folder (gmi-drl status lists runs)"
            )
        more = f" and {len(runs) - LISTED} more" if runs[LISTED:] else ""
        return f"it holds runs, name one of them: {', '.join(runs[:LISTED])}{more}"

    def write_task(self, spec: TaskSpec) -> None:
        """Write `task.json`: the facts of the task that its policy depends on."""
        write_atomically(self.path / "task.json", json.dumps(_facts(spec), indent=2) + "\n")

    def frame_skip(self) -> int:
        """Frames of a step of the task, by `task.json`; 1 if it tells none."""
        frames = _read_object(self.path / "task.json").get("frame_skip", 1)
        return frames if isinstance(frames, int) else 1

    def require_task(self, spec: TaskSpec) -> None:
        """Check that a task still is the run's. Facts that are not in `task.json` are not compared.

        Raises:
            UsageError: with the facts that differ.
        """
        now, saved = _facts(spec), _read_object(self.path / "task.json")
        if changed := [name for name in now if saved.get(name) and saved[name] != now[name]]:
            sides = "; ".join(f"{TASK_FACTS[name]}: {saved[name]}, now {now[name]}" for name in changed)
            raise UsageError(
                f"{spec.name} is not what {self.path} has learnt: {sides}: restore the task, or start a new run"
            )

    def write_state(self, state: str, message: str = "") -> None:
        """Write `state.json`: `running`, `done`, `stopped` or `failed`."""
        facts = {
            "state": state,
            "message": message,
            "host": platform.node(),
            "pid": os.getpid(),
            "process_started_s": psutil.Process().create_time(),
            "process_started_ticks": start_of(os.getpid()),
        }
        write_atomically(self.path / "state.json", json.dumps(facts) + "\n")

    def read_state(self) -> dict[str, Any]:
        """The state in `state.json`; `died` if it says `running` and its process on this host has ended.

        `host` is None in files of earlier versions, which is taken for this host. The state of a broken file is
        `unknown`.
        """
        unknown = {"state": "unknown", "message": "", "host": None, "pid": None}
        state = unknown | _read_object(self.path / "state.json")
        if not all(isinstance(state[name], kind) for name, kind in STATE.items()):
            return unknown
        try:
            is_here = state["host"] in (None, platform.node())
            has_died = state["state"] == "running" and is_here and not _lives(state)
            return state | {"state": "died"} if has_died else state
        except (ValueError, KeyError, TypeError):
            return unknown

    @contextmanager
    def kept_if_begun(self) -> Iterator[None]:
        """Remove the folders of `create` if the `with` block fails before there is a run. Only within `lock`.

        The folder itself stays if it was there before; `RUNS` is removed, too, if it is empty. If another folder has
        taken this one's name meanwhile, it stays as it is.
        """
        made = self.path.stat()
        try:
            yield
        except BaseException:
            with suppress(OSError):  # it was removed, or has other files
                is_here = os.path.samestat(made, self.path.stat())
                if is_here and not self.layout_file.exists() and not self._foreign():
                    for folder in (self.checkpoints, self.log_file(0).parent):
                        folder.rmdir()
                    (self.path / LOCK).unlink()
                    if not self.was_there:
                        self.path.rmdir()
                        if self.path.parent == RUNS:
                            RUNS.rmdir()
            raise

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for the time of a `with` block. The lock ends with the process.

        It is on a file that is open for writing, since NFS locks no other.

        Raises:
            InUseError: if another process has locked it.
            MachineError: if it cannot be written or locked.
        """
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise MachineError(f"{self.path}: {LOCK} cannot be written: {error.strerror}") from None
        try:
            self._take(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = {"pid": "(not known)", "host": "(not known)"} | _read_object(self.path / LOCK)
            working = f"process {owner['pid']} on {owner['host']} is working there"
            raise InUseError(f"{self.path}: {working}: wait or stop it") from None
        except OSError as error:
            raise MachineError(f"{self.path}: {LOCK} cannot be locked: {error.strerror}") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode(), 0)


def _facts(spec: TaskSpec) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "num_obs": spec.observation.size,
        "num_actions": spec.action.size,
        "action_bounds": spec.action_bounds,
    }
    is_plain = spec.observation == vector(spec.observation.size) and not spec.action.categories
    if spec.frame_skip > 1:
        facts["frame_skip"] = spec.frame_skip
    return facts if is_plain else {**facts, "observation": str(spec.observation), "action": str(spec.action)}


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is none, or something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lives(state: dict[str, Any]) -> bool:
    """Whether the process of a state is alive, and not another one with the same pid."""
    if "process_started_ticks" in state:
        return bool(0 < start_of(state["pid"]) == state["process_started_ticks"])
    try:  # of an earlier version, whose time differs once somebody has set the clock
        return bool(psutil.Process(state["pid"]).create_time() == state["process_started_s"])
    except psutil.NoSuchProcess:
        return False


def versions(*more: str) -> dict[str, str]:
    """Versions of Python, the platform, the packages that affect numbers, and of `more` packages."""
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    for package in (*RECORDED_PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
