"""The protocol of a simulator, whichever engine runs the physics."""

from collections.abc import Collection
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError

STATE_FIELDS = frozenset({"qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"})
"""The fields that `Sim.set` may write, by MuJoCo's names (mjData)."""


class Sim(Protocol):
    """N worlds of one model, stepped together. All tensors are on `device`, all masks are bool `[N]`.

    `get` and `bad` may be captured in a CUDA graph, because the tensors that they return keep their addresses.

    Attributes:
        sets_on_device: Whether `set` may be captured, too, because only the device works in it. After a replay of such
            a graph call `reset` or `forward` before the next step: the host does not know that fields were set.
    """

    device: torch.device
    num_env: int
    sets_on_device: bool

    def get(self, name: str) -> Tensor:
        """The field `name` (mjData) `[N, ...]`, valid until the next call of any other method.

        Float32, or float64 from a `SteppedSim`.
        """

    def set(self, name: str, mask: Tensor, value: Tensor) -> None:
        """Write the rows of `value` `[N, ...]` where `mask` is True to a state field. Call `forward` afterwards."""

    def step(self, ctrl: Tensor) -> None:
        """Run all substeps with the controls `ctrl` `[N, nu]`.

        Afterwards position- and velocity-stage fields describe the new state; acceleration-stage fields (forces, and
        their sensors) describe the last substep.
        """

    def reset(self, mask: Tensor) -> None:
        """Set the worlds in `mask` to the model's initial state. Call `forward` afterwards."""

    def forward(self) -> None:
        """Compute all fields of the worlds that `set` or `reset` have changed, and of no others."""

    def bad(self) -> Tensor:
        """The worlds that failed in the last step, bool `[N]`; the physics has already put them in a finite state."""

    def state_dict(self) -> dict[str, Tensor]:
        """A copy on the CPU of all that a bit-identical continuation needs, the solver's warm start included."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a `state_dict`. Raises UsageError if it has another number of worlds, or is of another model."""

    def close(self) -> None:
        """Free the worlds. No other method may be called afterwards; `close` may be called twice."""


def require_kept(name: str, kept: Collection[str]) -> None:
    """Raise UsageError for a field that was not named when the simulator was made."""
    if name not in kept:
        raise UsageError(f"Field '{name}' is not kept. Name it in `fields`; kept are {sorted(kept)}.")


def require_settable(name: str) -> None:
    """Raise UsageError for a field that is not part of the state."""
    if name not in STATE_FIELDS:
        raise UsageError(f"Field '{name}' cannot be set. Fields of the state can: {sorted(STATE_FIELDS)}.")


def require_same_worlds(saved: tuple[int, ...], own: tuple[int, ...]) -> None:
    """Raise UsageError unless the shapes `(worlds, numbers)` of two simulators' states are the same."""
    if saved != own:
        raise UsageError(
            f"The saved state has {saved[0]} environments of {saved[1]} numbers, this simulator {own[0]} of {own[1]}. "
            "Load it into a simulator of the same model and num_env."
        )
