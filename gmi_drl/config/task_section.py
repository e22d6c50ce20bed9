"""The section `task` of a run's configuration: how a game or a world of another library is played."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from gmi_drl.config.settings import RUN
from gmi_drl.files import FileModel

Count = Annotated[int, Field(ge=1)]


class TaskSettings(FileModel):
    """How a task is played.

    None takes the usual value of the task. A setting that the task does not take is refused.
    """

    noops: Annotated[int | None, Field(ge=0), RUN] = None
    """Atari: most steps without an action at the start of a game, drawn anew for each; usually 30."""

    frame_skip: Annotated[Count | None, RUN] = None
    """Atari: frames per step, each with the same action; usually 4. The step shows the maximum of the last two."""

    stack: Annotated[Count | None, RUN] = None
    """Atari: grey pictures that an observation has, the newest last; usually 4."""

    image_size: Annotated[Count | None, RUN] = None
    """Atari: height and width of the pictures; usually 84."""

    lives_end: Annotated[bool | None, RUN] = None
    """Atari: whether training treats the loss of a life as the end of an episode; usually true. Returns in metrics,
    evaluations and `play` are of whole games."""

    clip_rewards: Annotated[bool | None, RUN] = None
    """Atari: whether training sees the sign of a reward alone; usually true. Returns in metrics, evaluations and `play`
    are of the game's own rewards."""

    sticky_actions: Annotated[float | None, Field(ge=0, lt=1), RUN] = None
    """Atari: probability with which a frame repeats the action of the frame before; usually 0 (v5 of gymnasium: 0.25).
    """

    channels: Annotated[Literal["first", "last"] | None, RUN] = None
    """Images of gymnasium, envpool and PettingZoo: which of three dimensions is that of channels; usually the one
    beside two that are equal, else the smaller one."""

    agent_id: Annotated[bool | None, RUN] = None
    """PettingZoo: whether each agent also sees which one it is, as ones and zeros; usually false."""

    state: Annotated[bool | None, RUN] = None
    """PettingZoo: whether the critic sees the `state()` of a world; usually where there is one."""

    pad: Annotated[bool | None, RUN] = None
    """PettingZoo: whether smaller observations are filled with zeros and smaller actions masked, if agents differ;
    usually false, and agents that differ are refused."""

    def given(self) -> dict[str, Any]:
        """The settings that have a value."""
        return {name: value for name, value in self if value is not None}


USUAL_SETTINGS = TaskSettings()
"""No setting has a value."""

ATARI_SETTINGS = frozenset(
    {"noops", "frame_skip", "stack", "image_size", "lives_end", "clip_rewards", "sticky_actions"}
)

TAKEN: Mapping[str, frozenset[str]] = {
    "atari": ATARI_SETTINGS,
    "envpool": ATARI_SETTINGS | {"channels"},
    "gymnasium": frozenset({"channels"}),
    "pettingzoo": frozenset({"agent_id", "channels", "pad", "state"}),
}
"""The settings that the tasks of a prefix take; those of other tasks take none."""


def refused_settings(name: str, settings: TaskSettings, taken: frozenset[str] | None = None) -> str:
    """The sentence that refuses settings which a task does not take; empty if it takes all.

    Args:
        name: The task's name.
        settings: The section.
        taken: The settings that it takes; None for those of its prefix.
    """
    takes = TAKEN.get(name.partition(":")[0], frozenset()) if taken is None else taken
    if not (wrong := [key for key in settings.given() if key not in takes]):
        return ""
    takes_words = f"it takes {', '.join(sorted(takes))}" if takes else "it takes none of the section `task`"
    return f"{name} has no {', '.join(f'task.{key}' for key in wrong)} ({takes_words}): leave it out"
