"""What every simulator can do, whatever runs the physics."""

from typing import Protocol

import torch
from torch import Tensor

STATE_FIELDS = frozenset({"qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"})
"""The fields that `Sim.set` may write, by MuJoCo's names (mjData)."""


class Sim(Protocol):
    """N worlds of one model, stepped together. All tensors are on `device`, all masks are bool `[N]`."""

    device: torch.device
    num_env: int

    def get(self, name: str) -> Tensor:
        """Field `name` (mjData) as float32 `[N, ...]`, valid until the next call of any other method."""

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
