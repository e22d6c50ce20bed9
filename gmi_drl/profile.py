"""Profile files: what was measured of a workload on a node, as points of (GMIs per GPU, environments per GMI)."""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, parse

NOT_NEGATIVE = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SCHEMA = "gmi-drl/profile/1"


class ProfilePoint(FileModel):
    """One GMI of `gmis_per_gpu` on a device, with `num_env` environments; speed and memory are those of one GMI.

    The times are seconds of an iteration: the paper's T_s, T_a and T_t (section 5.1), and the waiting for other GMIs.
    """

    gmis_per_gpu: Annotated[int, Field(ge=1)]
    num_env: Annotated[int, Field(ge=1)]
    runnable: bool
    steps_per_second: NOT_NEGATIVE = 0.0
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    sim_s: NOT_NEGATIVE | None = None
    act_s: NOT_NEGATIVE | None = None
    learn_s: NOT_NEGATIVE | None = None
    sync_s: NOT_NEGATIVE | None = None


class Profile(FileModel):
    """A profile file: JSON, `schema: gmi-drl/profile/1`."""

    schema_: Annotated[Literal["gmi-drl/profile/1"], Field(alias="schema")] = SCHEMA
    task: str
    algo: str
    node: str
    points: tuple[ProfilePoint, ...]


def load_profile(path: Path) -> Profile:
    """Read and check a profile file.

    Raises:
        UsageError: with every mistake in it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a profile: {error}") from None
    return parse(Profile, data, str(path))


def dump_profile(profile: Profile) -> str:
    """The JSON that `load_profile` reads back as an equal profile."""
    return json.dumps(profile.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1) + "\n"
