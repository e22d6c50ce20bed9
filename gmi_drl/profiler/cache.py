"""Points that were measured before, by node, workload and versions: one profile file for each."""

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
    """`GMI_DRL_CACHE`, or a folder in the user's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("GMI_DRL_CACHE") or home / "gmi-drl")


class Cache:
    """Remembers profile points. A folder that cannot be written or read costs the memory, never the measurement.

    Args:
        task: What was measured.
        config: How it trained: its `learner` (and the versions of what that needs), `physics`, `warp`,
            `cuda_graphs` and `tf32`; the rest does not change the speed.
        node: Where.
        template: What a GMI did.
        fresh: Know nothing; what is measured anew replaces what is there.
    """

    def __init__(
        self, task: TaskSpec, config: RunConfig, node: Node, *, template: Template = TCG_EX, fresh: bool = False
    ) -> None:
        self.node = node
        key = {
            "task": asdict(task),
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
        """Remember a point, in place of an older one."""
        others = [known for known in self.profile.points if known.cut != point.cut]
        self._keep(self.profile.model_copy(update={"points": (*others, point)}))

    def add_noise(self, noise: NoiseScale) -> None:
        """Remember the gradient noise scale."""
        self._keep(self.profile.model_copy(update={"noise": noise}))

    def _keep(self, profile: Profile) -> None:
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
        """What is in the file; nothing where it cannot be read."""
        try:
            return load_profile(self.path)
        except UsageError:
            return self.profile.model_copy(update={"points": (), "noise": None})
