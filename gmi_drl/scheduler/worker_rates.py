"""What was measured of a simulator, a policy and a learner on one core and on a GPU: the profile file of workers."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gmi_drl.files import FileModel, load_json

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Seconds = Annotated[dict[Annotated[int, Field(ge=1)], Positive], Field(min_length=1)]


class GpuRates(FileModel):
    """What one GPU does of answering and learning, alone."""

    answers: Seconds
    """Seconds of an answer by the rows of its batch."""

    update_s: Positive
    """Seconds of an update for each of its samples."""


class Services(FileModel):
    """CPU seconds of what carries data between workers, on both sides together."""

    request_s: NotNegative
    """Of a request and its answer on one host, without the forward pass."""

    far_request_s: NotNegative
    """The same from another host, on the host of the policy worker."""

    rollout_s: NotNegative
    """Of a rollout that comes from another host, in its proxy on the host of the trainers."""

    version_s: NotNegative
    """Of sending a version of the policy to one reader on another host."""

    beat_s: NotNegative
    """Of the launcher, in a second, for each GMI."""


class WorkerRates(FileModel):
    """What was measured on one core, alone."""

    num_env: Annotated[int, Field(ge=1)]
    """N, environments of an actor."""

    step_s: Positive
    """Seconds of a step of N environments."""

    answers: Seconds
    """Seconds of an answer by the rows of its batch."""

    update_s: Positive
    """Seconds of an update for each of its samples."""

    trip_s: NotNegative
    """Seconds of a request and an empty answer between two processes."""

    agents: Annotated[int, Field(ge=1)] = 1
    """Of a world, which is in one member of a ring."""

    gpu: GpuRates | None = None
    """Of one GPU; None: there is none, or it was not measured."""

    services: Services | None = None
    """What carrying data costs; None: not measured."""

    def answer_s(self, rows: float) -> float:
        """Seconds of an answer of a core to so many rows."""
        return on_line(self.answers, rows)

    @property
    def inline(self) -> float:
        """Steps/s of a core that simulates and acts in turn."""
        return self.num_env / (self.step_s + self.answer_s(self.num_env))

    @property
    def together(self) -> float:
        """Steps/s of a core that simulates, acts and learns in turn: what TCG_EX does."""
        return 1 / (1 / self.inline + self.update_s)


class WorkerProfile(WorkerRates):
    """A profile file of workers: JSON, `schema: gmi-drl/workers/1`, of one kind of machine."""

    schema_: Annotated[Literal["gmi-drl/workers/1"], Field(alias="schema")] = "gmi-drl/workers/1"
    """Of the format."""

    task: str
    """The task that was measured."""

    learner: str = "ppo"
    """The kind of learner that was measured."""

    node: str
    """The machine that was measured: the name of a kind of nodes."""

    note: str = ""
    """Where its numbers come from."""


def on_line(seconds: Mapping[int, float], rows: float) -> float:
    """Seconds for so many rows: on the line between two measured sizes, beyond the last in proportion."""
    sizes = sorted(seconds)
    for below, above in pairwise(sizes):
        if rows <= above:
            share = max(0.0, (rows - below) / (above - below))
            return seconds[below] + share * (seconds[above] - seconds[below])
    return seconds[sizes[-1]] * max(1.0, rows / sizes[-1])


def dump_worker_profile(profile: WorkerProfile) -> str:
    """The text of a profile file."""
    return profile.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n"


def load_worker_profile(path: Path) -> WorkerProfile:
    """Read and check a profile file.

    Raises:
        UsageError: with every mistake in it.
    """
    return load_json(WorkerProfile, path, "profile of workers")
