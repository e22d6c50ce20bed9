"""`DRL_role`: the class that users subclass (paper section 3, Listing 1)."""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from gmi_drl.comm.messages.messages import Sending
from gmi_drl.roles.manager import GMI_manager


class DRL_role(ABC):
    """What one GMI does. Start it with `run_role("file.py:MyRole", layout)`.

    Args:
        GMI_id: Which GMI of the layout this is.
        role: `simulator`, `agent`, `trainer`, several joined by `+` in this order, or `holistic` for all three.
        gpu_id: Index of its device.
    """

    def __init__(self, GMI_id: int, role: str, gpu_id: int) -> None:
        self.GMI_id = GMI_id
        self.role = role
        self.mgr = GMI_manager.add_GMI(GMI_id)
        self.mgr.set_GPU(GMI_id, gpu_id)
        self.group = self.mgr.get_group(GMI_id, GMI_id)

    @abstractmethod
    def GMI_run(self, *args: Any, **params: Any) -> Any:
        """Do the work. `run_role` returns the result to its caller, as JSON: numbers, text, lists, dicts."""

    def GMI_collective(self, data: Tensor) -> None:
        """Sum a flat float32 tensor in place over the group of this GMI."""
        self.mgr.allreduce(data, self.group)

    def GMI_send(self, data: Any, dst_GMI_id: int) -> Sending:
        """Copy a tree of tensors (dicts, lists, tuples, numbers, text) to another GMI, without waiting.

        Returns a handle with `done()` and `wait()`. See `comm.messages.messages.Messages.send`.
        """
        return self.mgr.send(data, dst_GMI_id)

    def GMI_recv(self, src_GMI_id: int) -> Any:
        """Wait for the next message of another GMI. Its tensors are on this GMI's device."""
        return self.mgr.recv(src_GMI_id)
