"""Profile files: measurements of a workload on a node, as points of (GMIs per GPU, environments per GMI)."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, known, load_json
from gmi_drl.hardware.speeds import Speed
from gmi_drl.layout.backends import BACKENDS, PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.reductions import NONE, REDUCTIONS
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.workload import MOST_ENVIRONMENTS, TaskSpec

DISTURBED_VARIABLE = "GMI_DRL_DISTURBED"

DISTURBED = 0.15
"""Share of its cores that other processes took, from which a point is neither cached nor chosen."""

NotNegative = Annotated[float, Field(ge=0)]


def is_disturbed(others: float) -> bool:
    """Whether other processes took too much of the cores for a measurement to count.

    Args:
        others: Their share. `GMI_DRL_DISTURBED` replaces the limit `DISTURBED`, for machines that are never quiet.

    Raises:
        UsageError: if the variable is no positive number.
    """
    given = os.environ.get(DISTURBED_VARIABLE) or DISTURBED
    try:
        limit = float(given)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise UsageError(f"{DISTURBED_VARIABLE}={given} is no share above 0: 1 lets all measurements count")
    return others >= limit


class Phases(FileModel):
    """Seconds of one iteration of a GMI, by phase (`phases.PHASES`)."""

    sim_s: NotNegative
    """Simulating."""

    act_s: NotNegative
    """Acting."""

    learn_s: NotNegative
    """Learning."""

    sync_s: NotNegative
    """Waiting for other GMIs."""


class ProfilePoint(FileModel):
    """One GMI of `gmis_per_gpu` on a device, with `num_env` environments; speed and memory are those of one GMI."""

    gmis_per_gpu: Annotated[int, Field(ge=1)]
    """GMIs of a device."""

    num_env: Annotated[int, Field(ge=1, le=MOST_ENVIRONMENTS)]
    """Environments of a GMI."""

    backend: Annotated[str, known(BACKENDS)] = PROCESS.name
    """What cut the device."""

    capped: bool = False
    """Whether each GMI was held to an equal part of the device (`GMI.share`)."""

    reduction: Annotated[str, known(REDUCTIONS)] = NONE.name
    """How the GMIs of the device reduced; `none` if one was measured alone, or if not known."""

    model: str = ""
    """The GPU model, by any name that `hardware/gpus.py` knows; empty: any model of the node, or cores."""

    runnable: bool
    """Whether it ran."""

    steps_per_second: NotNegative = 0.0
    """Of a GMI."""

    relative_error: NotNegative = 0.0
    """Standard error of the mean time of an iteration over that mean; 0: not known."""

    others: NotNegative = 0.0
    """Share of the cores of the measured GMIs that other processes took meanwhile."""

    memory_bytes: Annotated[int, Field(ge=0)] = 0
    """Peak on the device; 0: not measured."""

    host_bytes: Annotated[int, Field(ge=0)] = 0
    """Peak on the host, the same for a GMI of cores; 0: not measured."""

    phases: Phases | None = None
    """Seconds of an iteration by phase; None: not known."""

    reason: str = ""
    """Why it is not runnable."""

    @property
    def cut(self) -> Cut:
        """How the device was cut, and the environments of a GMI."""
        return Cut(self.gmis_per_gpu, self.num_env, self.backend, capped=self.capped)

    @property
    def disturbance(self) -> str:
        """Why its speed says nothing, if other processes took too much; else empty."""
        if not is_disturbed(self.others):
            return ""
        took = f"other processes took {self.others:.0%} of its cores while it was measured"
        return f"{took}: measure on a quiet machine, or set {DISTURBED_VARIABLE}=1 to take it all the same"

    @model_validator(mode="after")
    def _can_be_capped(self) -> Self:
        if self.capped and not BACKENDS.find(self.backend).caps:
            raise ValueError(f"capped: backend {self.backend!r} holds no GMI to a share: leave it out")
        return self


class Profile(FileModel):
    """A profile file: JSON, `schema: gmi-drl/profile/2`."""

    former: ClassVar[Mapping[str, str]] = {"algo": "`learner`"}
    schema_: Annotated[Literal["gmi-drl/profile/2"], Field(alias="schema")] = "gmi-drl/profile/2"
    """Of the format."""

    task: str
    """The task that was measured."""

    learner: str
    """The kind of learner that was measured (`learner.kind` of a configuration)."""

    node: str
    """The machine that was measured."""

    note: str = ""
    """Where its numbers come from."""

    speeds: dict[Annotated[str, known(BACKENDS)], dict[str, Speed]] | None = None
    """How fast GMIs of the node reduce, by backend and way; None: not measured. Earlier files have those of plain
    sharing only, without the backend."""

    noise: NoiseScale | None = None
    """The gradient noise scale of task and learner; None: not measured."""

    points: tuple[ProfilePoint, ...]
    """What was measured."""

    @field_validator("speeds", mode="before")
    @classmethod
    def _by_backend(cls, speeds: Any) -> Any:
        """Put the speeds of an earlier file under their backend."""
        every = speeds.values() if isinstance(speeds, dict) else ()
        is_earlier = any(isinstance(one, dict) and "round_s" in one for one in every)
        return {PROCESS.name: speeds} if is_earlier else speeds

    @model_validator(mode="after")
    def _each_cut_once(self) -> Self:
        cuts = Counter((point.cut, point.model) for point in self.points)
        if twice := [str(cut) for (cut, _), count in cuts.items() if count > 1]:
            raise ValueError(f"points (GMIs per device x environments) given twice: {', '.join(twice)}")
        return self

    def point(self, cut: Cut) -> ProfilePoint | None:
        """The point of a cut, of the first model that has it; None if there is none."""
        return next((point for point in self.points if point.cut == cut), None)


def require_same_task(profile: Profile, task: TaskSpec) -> None:
    """Raise `UsageError` if a profile is of another task."""
    if profile.task != task.name:
        remedy = f"measure that one, or plan with --task {profile.task}"
        raise UsageError(f"the profile is of task {profile.task}, not of {task.name}: {remedy}")


def dump_profile(profile: Profile) -> str:
    """The text of a profile file, with one line for each point."""
    head = profile.model_dump(mode="json", by_alias=True, exclude={"points"}, exclude_none=True)
    facts = json.dumps(head, indent=1, ensure_ascii=False)
    points = ",\n".join(f"  {point.model_dump_json(exclude_defaults=True)}" for point in profile.points)
    return f'{facts.removesuffix("}").rstrip()},\n "points": [\n{points}\n ]\n}}\n'


def load_profile(path: Path) -> Profile:
    """Read and check a profile file.

    Raises:
        UsageError: with every mistake in it.
    """
    return load_json(Profile, path, "profile")
