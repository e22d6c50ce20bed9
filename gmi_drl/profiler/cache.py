"""A cache of profile points: one file for each node, workload and set of versions."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_names import as_file_name
from gmi_drl.errors import UsageError
from gmi_drl.files import write_atomically
from gmi_drl.hardware.node import Node
from gmi_drl.run.folder import versions
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import Profile, ProfilePoint, dump_profile, load_profile
from gmi_drl.templates import TCG_EX, Template
from gmi_drl.workload import TaskSpec


def cache_folder() -> Path:
    """The folder in `GMI_DRL_CACHE`, or else `gmi-drl` in the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("GMI_DRL_CACHE") or home / "gmi-drl")


class Cache:
    """The profile points of a workload on a node, kept in a file.

    If its folder cannot be read or written, points are measured again; nothing fails.

    Args:
        task: The task that was measured.
        config: The configuration. Its `learner` (with the versions of the packages that it needs), `physics`, `warp`,
            `cuda_graphs`, `tf32` and `task` are part of the key; the rest does not change the speed.
        node: The machine.
        template: The template, which says what a GMI did.
        fresh: Begin empty; newly measured points replace those in the file.
    """

    def __init__(
        self, task: TaskSpec, config: RunConfig, node: Node, *, template: Template = TCG_EX, fresh: bool = False
    ) -> None:
        self.node = node
        played = config.task.given()
        key = {
            "task": asdict(task),
            **({"played": played} if played else {}),
            "learner": config.learner.model_dump(mode="json"),
            "physics": config.physics,
            "warp": config.warp.model_dump(),
            "cuda_graphs": config.cuda_graphs,
            "tf32": config.tf32,
            "template": template.name,
            "node": node.model_dump(mode="json"),
            "versions": versions(*(package for package, _ in LEARNERS.find(config.learner.kind).needs)),
        }
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        self.path = cache_folder() / "profiles" / f"{as_file_name(task.name)}-{digest}.json"
        self.profile = Profile(task=task.name, learner=config.learner.kind, node=node.name, points=())
        if not fresh:
            known = self._read()
            self.profile = self.profile.model_copy(update={"points": known.points, "noise": known.noise})

    def add(self, point: ProfilePoint) -> None:
        """Store a point, in place of an older one of the same cut."""
        others = [known for known in self.profile.points if known.cut != point.cut]
        self._store(self.profile.model_copy(update={"points": (*others, point)}))

    def add_noise(self, noise: NoiseScale) -> None:
        """Store the gradient noise scale."""
        self._store(self.profile.model_copy(update={"noise": noise}))

    def _store(self, profile: Profile) -> None:
        self.profile, older = profile, self._read()
        mine = {known.cut for known in profile.points}
        points = (*(known for known in older.points if known.cut not in mine), *profile.points)
        everything = profile.model_copy(update={"points": points, "noise": profile.noise or older.noise})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, dump_profile(everything))
        except OSError:
            return

    def _read(self) -> Profile:
        """The profile in the file; an empty one if it cannot be read."""
        try:
            return load_profile(self.path)
        except UsageError:
            return self.profile.model_copy(update={"points": (), "noise": None})
