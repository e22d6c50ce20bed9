"""What launcher and GMIs say to each other. `roles/launcher/connection.py` carries it, as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin

# The launcher says:


@dataclass(frozen=True)
class Proved:
    """What the GMI has said with `OnDevice` is found to be so: make the role."""


@dataclass(frozen=True)
class Kept:
    """What the GMI has said with `Keep` or `AtHome` is done."""


@dataclass(frozen=True)
class Start:
    """All are ready: begin."""


@dataclass(frozen=True)
class Stop:
    """End this iteration, save, and be done."""


@dataclass(frozen=True)
class Measure:
    """Iterate with `num_env` environments for about `seconds`, and report how that went.

    `sample_share` is what this GMI learns from divided by what all of its layout do.
    """

    num_env: int
    seconds: float
    sample_share: float = 1.0


@dataclass(frozen=True)
class Reduce:
    """Sum vectors in a group, and report how long it took."""

    group: str


# A GMI says:


@dataclass(frozen=True)
class Attached:
    """The process has its share of the device, and makes its role."""


@dataclass(frozen=True)
class OnDevice:
    """The process has made its context on its GPU, and waits for `Proved`. One on cores does not say it."""


@dataclass(frozen=True)
class Keep:
    """Carry this file of the run folder, by its path within, to the launcher's, which this host does not see."""

    file: str


@dataclass(frozen=True)
class AtHome:
    """Do this with the draft of a checkpoint where the launcher is; see `run.home`."""

    do: str
    given: dict[str, Any]


@dataclass(frozen=True)
class Ready:
    """The role is made and waits for the launcher's words.

    Args:
        compiled_s: What the first calls of its simulator took, in which kernels may have been compiled.
    """

    compiled_s: float = 0.0


@dataclass(frozen=True)
class Report:
    """How an iteration, or what the launcher asked for, went."""

    row: dict[str, Any]


@dataclass(frozen=True)
class Waits:
    """The role waits for another GMI, which is slow and not silent."""


@dataclass(frozen=True)
class Wrote:
    """A shard of experience is kept for good; see `run.experience.Shard`."""

    shard: dict[str, Any]


@dataclass(frozen=True)
class Warned:
    """Something that people should be told of, and that does not end the role."""

    message: str


@dataclass(frozen=True)
class Done:
    """The role has returned this (JSON). `Closed` follows."""

    result: Any


@dataclass(frozen=True)
class Failed:
    """The role has failed. `blames_peer`: because of another GMI, whose own error tells more. `Closed` follows."""

    message: str
    exit_code: int
    blames_peer: bool


@dataclass(frozen=True)
class Closed:
    """All environments of this process are closed. `complaint` tells which failed to, and how; else it is empty.

    It is the last word.
    """

    complaint: str = ""


LauncherWord = Proved | Kept | Start | Stop | Measure | Reduce
GMIWord = Attached | OnDevice | Keep | AtHome | Ready | Report | Waits | Wrote | Warned | Done | Failed | Closed
_OF_LAUNCHER = {word.__name__: word for word in get_args(LauncherWord)}
_OF_GMI = {word.__name__: word for word in get_args(GMIWord)}


def to_message(word: LauncherWord | GMIWord) -> dict[str, Any]:
    """A word as a message, e.g. `{"word": "Measure", "num_env": 256, "seconds": 1.0}`."""
    return {"word": type(word).__name__, **vars(word)}


def said_by_launcher(message: object) -> LauncherWord:
    """The launcher's word in a message that `to_message` has made. Raises ValueError for another one."""
    word: LauncherWord = _word(message, _OF_LAUNCHER)
    return word


def said_by_gmi(message: object) -> GMIWord:
    """A GMI's word in a message that `to_message` has made. Raises ValueError for another one."""
    word: GMIWord = _word(message, _OF_GMI)
    return word


def _word(message: object, known: Mapping[str, Any]) -> Any:
    if not isinstance(message, Mapping) or str(message.get("word")) not in known:
        raise ValueError(f"expected one of {', '.join(known)}")
    word = known[message["word"]]
    wanted: dict[str, Any] = {field.name: field.type for field in fields(word)}
    values = {name: value for name, value in message.items() if name != "word"}
    if values.keys() != wanted.keys() or not all(_is_a(value, wanted[name]) for name, value in values.items()):
        known_as = ", ".join(f"{name}: {kind.__name__}" for name, kind in wanted.items())
        raise ValueError(f"{word.__name__} comes with {known_as or 'nothing'}")
    return word(**values)


def _is_a(value: object, wanted: Any) -> bool:
    return wanted is Any or isinstance(value, (int, float) if wanted is float else get_origin(wanted) or wanted)
