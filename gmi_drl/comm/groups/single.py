"""A group of one process: nobody to wait for."""

from torch import Tensor

from gmi_drl.comm.group import check_values
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.rendezvous import Rendezvous


class SingleRankGroup:
    """The `Group` of one process."""

    def __init__(self, member: Membership | None = None, rendezvous: Rendezvous | None = None) -> None:
        """Takes the arguments of every group and ignores them."""
        self.rank = 0
        self.size = 1
        self.wait_s = 0.0

    def gather(self, values: Tensor) -> Tensor:
        """A copy as `[1, n]`; see `Group`."""
        check_values(values)
        return values.detach().clone().unsqueeze(0)

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing to give back."""
