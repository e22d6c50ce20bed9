"""`index.json` of a folder with experience: facts about it, and its shards."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, load_json
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.spaces import Observation, Part, PartKind, to_json, vector

SCHEMA: Literal["gmi-drl/experience/1"] = "gmi-drl/experience/1"
INDEX = "index.json"
MARK = ".writing"
"""A file in the folder while experience is being written there."""

SHARD_BYTES = 32 * 2**20
"""Bytes of the steps in a shard, unless one step of all environments needs more."""

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Shard(FileModel):
    """One file: the next `steps` control steps of all environments of a GMI.

    `transitions` is the number of valid steps of single environments, `ends` how many of them ended an episode. For
    `knows_final_obs` see `Block`.
    """

    file: Annotated[str, Field(pattern=r"^gmi-[0-9]+-[0-9]{6,}\.safetensors$")]
    steps: Positive
    transitions: Count
    ends: Count
    knows_final_obs: bool
    bytes: Positive
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class GMIExperience(FileModel):
    """The experience of one GMI: `num_env` environments with a seed of their own, shards in the order of time."""

    num_env: Positive
    seed: Count
    shards: tuple[Shard, ...]


class PartOfIndex(FileModel):
    """A part of the observation; see `spaces.Part`."""

    name: str
    shape: tuple[Positive, ...]
    kind: PartKind


class ExperienceIndex(FileModel):
    """`index.json`, `schema: gmi-drl/experience/1`. Files that are not in it are no part of the experience.

    The policy of `run` after `iteration` acted, with the noise of training if `stochastic`. `state` is `stopped` if a
    signal ended the serving before all steps were done, `failed` if a GMI failed; the shards are complete all the same.
    `parts` are those of the observation; None: one vector of `num_obs` numbers.
    """

    schema_: Annotated[Literal["gmi-drl/experience/1"], Field(alias="schema")] = SCHEMA
    state: Literal["done", "stopped", "failed"]
    task: str
    num_obs: Positive
    num_actions: Positive
    parts: tuple[PartOfIndex, ...] | None = None
    step_s: float
    run: str
    iteration: Count
    seed: Count
    stochastic: bool
    versions: dict[str, str]
    gmis: dict[int, GMIExperience]

    @property
    def observation(self) -> Observation:
        """What the observations consist of."""
        if self.parts is None:
            return vector(self.num_obs)
        return Observation(tuple(Part(part.name, part.shape, part.kind) for part in self.parts))


def sizes_of(spec: TaskSpec) -> dict[str, Any]:
    """The entries of the index that tell a task's sizes."""
    sizes = {"num_obs": spec.observation.size, "num_actions": spec.action.size, "step_s": spec.step_s}
    is_plain = spec.observation == vector(spec.observation.size)
    return sizes if is_plain else {**sizes, "parts": tuple(to_json(spec.observation))}


def step_bytes(spec: TaskSpec) -> int:
    """Bytes of one control step of one environment in a shard, without last observations of episodes."""
    return spec.observation.nbytes + spec.action.nbytes + 4 + 3


def read_index(folder: Path) -> ExperienceIndex:
    """Read the index of a folder with experience.

    Raises:
        UsageError: if there is none, or it is broken.
    """
    if not (folder / INDEX).exists():
        if (folder / MARK).exists():
            raise UsageError(f"{folder} has no {INDEX} yet: it is being written, or its writer was killed")
        raise UsageError(f"{folder} is no folder with experience: it has no {INDEX}")
    return load_json(ExperienceIndex, folder / INDEX, "index of experience")
