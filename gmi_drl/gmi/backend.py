"""The contract of a backend: how shares of devices are made, given to processes, and taken back."""

from typing import Protocol

from gmi_drl.hardware import Node
from gmi_drl.layout import Layout


class Backend(Protocol):
    """A way to cut devices into GMIs. Whatever kills the run, it leaves no daemon, instance or child behind."""

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Why this layout cannot be opened on this node, each reason with its numbers; empty when it can."""
        ...

    def open(self, layout: Layout) -> None:
        """Claim the devices and cut them.

        Raises:
            LayoutMismatchError: if the layout does not fit the machine, or a device is in use.
        """
        ...

    def environment(self, gmi_id: int) -> dict[str, str]:
        """The environment variables that make a process a GMI, complete before it imports torch."""
        ...

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Check on the living process that it has its share.

        Raises:
            LayoutMismatchError: naming what it has instead.
        """
        ...

    def close(self) -> None:
        """Give the devices back. May be called twice."""
        ...
