"""The contract of a backend: how shares of devices are made, given to processes, and taken back."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout


class Instances(Protocol):
    """The GMIs of one layout, while its devices are cut: what makes a process one of them.

    Attributes:
        drains: Whether a process may be killed only when what it has in flight on its device is done. Then the signal
            `process_signals.DRAIN` lets it finish that, it gets this one in place of SIGKILL when the launcher dies,
            and who ends it after that is the backend's affair.
    """

    drains: bool

    def environment(self, gmi_id: int) -> dict[str, str]:
        """The variables that make a process a GMI, complete before it imports torch: `gmi_environment` and more."""
        ...

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Check on the living process that it has its share, before it touches a GPU.

        Raises:
            LayoutMismatchError: naming what it has instead.
        """
        ...

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Check on the living process that the context that it has made on its GPU is in its share.

        Raises:
            LayoutMismatchError: naming what it has instead.
        """
        ...

    def release(self, groups: Sequence[int]) -> None:
        """Take their GPU from what still runs in these process groups, which are killed next. May be called twice."""
        ...


class Backend(Protocol):
    """A way to cut devices into GMIs. It is made without arguments, one for each claim, and claims nothing itself.

    Two `with` blocks lie within a claim: `held`, once, around all that is cut, and `cut` for each layout. However they
    end, no daemon, instance or child is left. When this process is killed they do not end: what a backend has started
    must see that by itself, e.g. by the end of a pipe from here.
    """

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Why this layout cannot be opened on this node, each reason with its numbers; empty when it can."""
        ...

    def devices(self, layout: Layout) -> list[str]:
        """Names of its devices to claim, the same for whoever uses them. The layout has passed the check."""
        ...

    def held(self, layouts: Sequence[Layout]) -> AbstractContextManager[None]:
        """Keep what all cuts of a claim share, such as a daemon, for the time of a `with` block.

        Args:
            layouts: All that may be cut, each any number of times. They have passed the check, and are claimed.

        Raises:
            MachineError: if it cannot be had.
        """
        ...

    def cut(self, layout: Layout) -> AbstractContextManager[Instances]:
        """Cut the devices of a layout for the time of a `with` block, within `held`.

        Where cuts coexist (`BackendEntry.coexists`), several of such blocks may be open at once.

        Raises:
            MachineError: if they cannot be cut.
        """
        ...
