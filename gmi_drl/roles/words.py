"""What a launcher says to a GMI that runs."""

from dataclasses import asdict, dataclass
from typing import Any, get_args


@dataclass(frozen=True)
class Stop:
    """End this iteration, save, and be done."""


@dataclass(frozen=True)
class Start:
    """All are ready: begin."""


@dataclass(frozen=True)
class Measure:
    """Iterate with `num_env` environments for about `seconds`, and report how that went."""

    num_env: int
    seconds: float


@dataclass(frozen=True)
class Reduce:
    """Sum gradients by a method of reduction, and report how long it took."""

    method: str


LauncherWord = Start | Stop | Measure | Reduce
_WORDS = {word.__name__: word for word in get_args(LauncherWord)}


def to_message(word: LauncherWord) -> dict[str, Any]:
    """A word as a message."""
    return {"word": type(word).__name__, **asdict(word)}


def from_message(message: dict[str, Any]) -> LauncherWord:
    """The word that `to_message` has made a message of."""
    word: LauncherWord = _WORDS[message.pop("word")](**message)
    return word
