"""What every simulator can do, whatever runs the physics."""

from collections.abc import Collection
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError

STATE_FIELDS = frozenset({"qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"})
"""The fields that `Sim.set` may write, by MuJoCo's names (mjData)."""


class Sim(Protocol):
    """N worlds of one model, stepped together. All tensors are on `device`, all masks are bool `[N]`.

    Attributes:
        sets_on_device: Whether `set` is work of the device alone, so that a CUDA graph can hold it, after whose replay
            `reset` or `forward` must come before the next step, as the host does not hear of what was set. `get` and
            `bad` always can be in one: what they return stays where it is.
    """

    device: torch.device
    num_env: int
    sets_on_device: bool

    def get(self, name: str) -> Tensor:
        """Field `name` (mjData) `[N, ...]`, valid until the next call of any other method.

        Float32, but float64 of a `SteppedSim`.
        """

    def set(self, name: str, mask: Tensor, value: Tensor) -> None:
        """Write the rows of `value` `[N, ...]` where `mask` is True to a state field. Follow with `forward`."""

    def step(self, ctrl: Tensor) -> None:
        """Apply `ctrl` `[N, nu]` for all substeps.

        Afterwards position- and velocity-stage fields describe the new state; acceleration-stage fields (forces, and
        the sensors of them) describe the last substep.
        """

    def reset(self, mask: Tensor) -> None:
        """Put worlds back to the model's initial state. Follow with `forward`."""

    def forward(self) -> None:
        """Bring all fields up to date for the worlds that `set` or `reset` have changed, and only for those."""

    def bad(self) -> Tensor:
        """Worlds that went wrong in the last step, bool `[N]`; the physics has already put them in a finite state."""

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of all that a bit-identical continuation needs (the solver's warm start too), on the CPU."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from where `state_dict` was taken. Raises UsageError if that had other worlds (number or model)."""

    def close(self) -> None:
        """Free the worlds. Nothing else may be called afterwards; closing twice is fine."""


def require_kept(name: str, kept: Collection[str]) -> None:
    """Raise UsageError for a field that was not named when the simulator was made."""
    if name not in kept:
        raise UsageError(f"Field '{name}' is not kept. Name it in `fields`; there are {sorted(kept)}.")


def require_settable(name: str) -> None:
    """Raise UsageError for a field that is not part of the state."""
    if name not in STATE_FIELDS:
        raise UsageError(f"Field '{name}' cannot be set; those of the state can: {sorted(STATE_FIELDS)}.")


def require_same_worlds(saved: tuple[int, ...], own: tuple[int, ...]) -> None:
    """Raise UsageError unless the shapes `(worlds, numbers)` of two simulators' states are the same."""
    if saved != own:
        raise UsageError(
            f"The saved state has {saved[0]} worlds of {saved[1]} numbers, this simulator {own[0]} of {own[1]}. "
            "Load it into a simulator of the same model and num_env."
        )
