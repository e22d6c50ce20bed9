"""`index.json` of a folder with experience: what it is of, and which shards count."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, load_json
from gmi_drl.workload import TaskSpec

SCHEMA: Literal["gmi-drl/experience/1"] = "gmi-drl/experience/1"
INDEX = "index.json"
MARK = ".writing"
"""Lies in a folder as long as somebody writes there."""

SHARD_BYTES = 32 * 2**20
"""Of the steps in a shard, unless one step of all worlds is more."""

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Shard(FileModel):
    """One file: `steps` control steps of all worlds of a GMI, those after the shard before.

    `transitions` counts steps of single worlds that are such (`valid`), `ends` those of them that ended an episode.
    `knows_final_obs` False: the simulator tells no last observations; in their place is the one before the step.
    """

    file: Annotated[str, Field(pattern=r"^gmi-[0-9]+-[0-9]{6,}\.safetensors$")]
    steps: Positive
    transitions: Count
    ends: Count
    knows_final_obs: bool
    bytes: Positive
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class GMIExperience(FileModel):
    """What one GMI has seen: `num_env` worlds with their own seed, shards in the order of time."""

    num_env: Positive
    seed: Count
    shards: tuple[Shard, ...]


class ExperienceIndex(FileModel):
    """`index.json`: JSON, `schema: gmi-drl/experience/1`. A file that it does not name is no part of the experience.

    `run` and `iteration` say whose policy acted, `stochastic` whether with the noise of training. `state` is `stopped`
    where a signal ended it before all steps were done, `failed` where a GMI did: what is named is whole all the same.
    """

    schema_: Annotated[Literal["gmi-drl/experience/1"], Field(alias="schema")] = SCHEMA
    state: Literal["done", "stopped", "failed"]
    task: str
    num_obs: Positive
    num_actions: Positive
    step_s: float
    run: str
    iteration: Count
    seed: Count
    stochastic: bool
    versions: dict[str, str]
    gmis: dict[int, GMIExperience]


def step_bytes(spec: TaskSpec) -> int:
    """Of one control step of one world in a shard; the last observation of an episode comes on top."""
    return 4 * (spec.num_obs + spec.num_actions + 1) + 3


def read_index(folder: Path) -> ExperienceIndex:
    """What is in a folder with experience.

    Raises:
        UsageError: if it is none, or its index is broken.
    """
    if not (folder / INDEX).exists():
        if (folder / MARK).exists():
            raise UsageError(f"{folder} has no {INDEX} yet: it is being written, or who wrote it was killed")
        raise UsageError(f"{folder} is no folder with experience: it has no {INDEX}")
    return load_json(ExperienceIndex, folder / INDEX, "index of experience")
