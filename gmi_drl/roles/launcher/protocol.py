"""The messages between launcher and GMIs. `roles/launcher/connection.py` carries them as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin

# From the launcher to a GMI:


@dataclass(frozen=True)
class Proved:
    """Answers `OnDevice`: the GMI does compute on its device, and may make its role."""


@dataclass(frozen=True)
class Stored:
    """Answers `StoreFile` and `StoreCommand`: it is done."""


@dataclass(frozen=True)
class Start:
    """Serving only: all GMIs are ready, begin."""


@dataclass(frozen=True)
class Stop:
    """End this iteration, save, and return.

    Args:
        after: The first iteration at whose end this is done.
    """

    after: int = 0


@dataclass(frozen=True)
class Save:
    """Save a checkpoint at the end of iteration `after`, or of this one if it is later."""

    after: int


@dataclass(frozen=True)
class Hold:
    """Send `Holds`, and wait for `Stop` or `Save`: meanwhile other policies cannot go far."""


@dataclass(frozen=True)
class Lost:
    """To policy workers: an actor is lost, perhaps with its node, and the run goes on without it.

    Args:
        gmi: Its id.
        predecessors: How many processes it had before the one that is lost.
    """

    gmi: int
    predecessors: int


@dataclass(frozen=True)
class Measure:
    """Iterate with `num_env` environments for about `seconds`, and report the speed.

    `sample_share` is this GMI's share of the samples that the GMIs of its layout learn from.
    """

    num_env: int
    seconds: float
    sample_share: float = 1.0


@dataclass(frozen=True)
class Reduce:
    """Sum vectors in a group, and report how long it took."""

    group: str


# From a GMI to the launcher:


@dataclass(frozen=True)
class Attached:
    """The process has its share of the device, and makes its role."""


@dataclass(frozen=True)
class OnDevice:
    """The process has made its context on its GPU, and waits for `Proved`. A GMI on cores does not send it."""


@dataclass(frozen=True)
class StoreFile:
    """Move this file, in this host's copy of the run folder, to the launcher's, which this host does not see."""

    file: str


@dataclass(frozen=True)
class StoreCommand:
    """Call the method `do` of the launcher's `run.checkpoint_store.CheckpointStore` with these arguments."""

    do: str
    given: dict[str, Any]


@dataclass(frozen=True)
class Ready:
    """The role is made and waits for messages.

    Args:
        compiled_s: Seconds of the first calls of its simulator, in which kernels may have been compiled.
    """

    compiled_s: float = 0.0


@dataclass(frozen=True)
class Acts:
    """The actor worker has its simulators and all ends: it acts from now on."""


@dataclass(frozen=True)
class Report:
    """Numbers of an iteration, or of what the launcher asked for."""

    row: dict[str, Any]


@dataclass(frozen=True)
class Holds:
    """Answers `Hold`, in the midst of an iteration."""

    iteration: int


@dataclass(frozen=True)
class Waits:
    """The role waits for another GMI, which is slow and does not hang."""


@dataclass(frozen=True)
class Wrote:
    """A shard of experience is on the disk; see `replay.files.index.Shard`."""

    shard: dict[str, Any]


@dataclass(frozen=True)
class Warned:
    """A warning for the user. The role goes on."""

    message: str


@dataclass(frozen=True)
class Done:
    """The role has returned this result (JSON). `Closed` follows."""

    result: Any


@dataclass(frozen=True)
class Failed:
    """The role has failed. `Closed` follows.

    `blames_peer`: because of another GMI, whose own error says more. `peer_ended`: because that GMI has ended; then its
    own complaint about a third one, if there is one, says more.
    """

    message: str
    exit_code: int
    blames_peer: bool
    peer_ended: bool = False


@dataclass(frozen=True)
class Closed:
    """All environments of this process are closed; `complaint` has the errors of those that failed to, or is empty.

    No message follows.
    """

    complaint: str = ""


MessageToGMI = Proved | Stored | Start | Stop | Save | Hold | Lost | Measure | Reduce
MessageToLauncher = (
    Attached
    | OnDevice
    | StoreFile
    | StoreCommand
    | Ready
    | Acts
    | Report
    | Holds
    | Waits
    | Wrote
    | Warned
    | Done
    | Failed
    | Closed
)
_TO_GMI = {kind.__name__: kind for kind in get_args(MessageToGMI)}
_TO_LAUNCHER = {kind.__name__: kind for kind in get_args(MessageToLauncher)}


def to_json(message: MessageToGMI | MessageToLauncher) -> dict[str, Any]:
    """A message as a dict that JSON can hold, e.g. `{"kind": "Measure", "num_env": 256, "seconds": 1.0}`."""
    return {"kind": type(message).__name__, **vars(message)}


def parse_message_to_gmi(value: object) -> MessageToGMI:
    """The message that `to_json` has written. Raises ValueError for anything else."""
    message: MessageToGMI = _parse(value, _TO_GMI)
    return message


def parse_message_to_launcher(value: object) -> MessageToLauncher:
    """The message that `to_json` has written. Raises ValueError for anything else."""
    message: MessageToLauncher = _parse(value, _TO_LAUNCHER)
    return message


def _parse(value: object, kinds: Mapping[str, Any]) -> Any:
    if not isinstance(value, Mapping) or str(value.get("kind")) not in kinds:
        raise ValueError(f"expected one of {', '.join(kinds)}")
    kind = kinds[value["kind"]]
    wanted: dict[str, Any] = {field.name: field.type for field in fields(kind)}
    values = {name: entry for name, entry in value.items() if name != "kind"}
    if values.keys() != wanted.keys() or not all(_is_a(entry, wanted[name]) for name, entry in values.items()):
        signature = ", ".join(f"{name}: {type_.__name__}" for name, type_ in wanted.items())
        raise ValueError(f"{kind.__name__} comes with {signature or 'nothing'}")
    return kind(**values)


def _is_a(value: object, wanted: Any) -> bool:
    return wanted is Any or isinstance(value, (int, float) if wanted is float else get_origin(wanted) or wanted)
