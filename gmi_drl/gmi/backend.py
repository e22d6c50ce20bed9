"""The contract of a backend: how shares of devices are made, given to processes, and taken back."""

from typing import Protocol

from gmi_drl.hardware import Node
from gmi_drl.layout import Layout

CPUS_VARIABLE = "GMI_DRL_CPUS"
"""CPU numbers, comma-separated, that a GMI's process binds itself to before it imports torch."""


class Backend(Protocol):
    """A way to cut devices into GMIs, for one layout. Whatever kills the run, it leaves no daemon, instance or child.

    It is made without arguments and claims nothing: whoever opens layouts has claimed their devices (`gmi.claimed`).
    """

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Why this layout cannot be opened on this node, each reason with its numbers; empty when it can."""
        ...

    def devices(self, layout: Layout) -> list[str]:
        """Names of its devices to claim, the same for whoever uses them. The layout has passed the check."""
        ...

    def cut(self, layout: Layout) -> None:
        """Cut the devices, which are claimed. The layout has passed the check.

        Raises:
            MachineError: if they cannot be cut.
        """
        ...

    def environment(self, gmi_id: int) -> dict[str, str]:
        """The variables that make a process a GMI, complete before it imports torch; `CPUS_VARIABLE` among them."""
        ...

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Check on the living process that it has its share.

        Raises:
            LayoutMismatchError: naming what it has instead.
        """
        ...

    def close(self) -> None:
        """Undo the cut. May be called twice."""
        ...
