"""What a backend must do: cut devices into shares, give them to processes, and take them back."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout


class Instances(Protocol):
    """The shares of one layout's GMIs while its devices are cut.

    Attributes:
        drains: Whether a process may be killed only after its work in flight on the device is done. Such a process gets
            the signal `processes.signals.DRAIN`, also in place of SIGKILL when the launcher dies. The backend kills it
            afterwards.
    """

    drains: bool

    def environment(self, gmi_id: int) -> dict[str, str]:
        """The environment variables of a GMI's process, such as `gmi_environment`. Set before it imports torch."""
        ...

    def prove_attached(self, gmi_id: int, pid: int) -> None:
        """Check that the running process has its share, before it uses a GPU.

        Raises:
            LayoutMismatchError: if it is not; the message says what it has instead.
        """
        ...

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Check that the context which the running process has created on its GPU is in its share.

        Raises:
            LayoutMismatchError: if it is not; the message says what it has instead.
        """
        ...

    def release(self, groups: Mapping[int, int]) -> None:
        """Take the GPU from the processes that still run. They are killed next. May be called twice.

        Args:
            groups: Their process groups, by GMI.
        """
        ...


class Backend(Protocol):
    """A way to cut devices into GMIs. Constructed without arguments, once for each claim; it claims nothing itself.

    Within a claim `held` is entered once, and `cut` for each layout inside it. However these blocks end, no daemon,
    instance or child is left. If this process is killed, the blocks do not end: what a backend has started must notice
    by itself, e.g. by the end of a pipe.
    """

    def check(self, node: Node, layout: Layout) -> list[str]:
        """The reasons for which this layout cannot be opened on this node, with numbers; empty if it can."""
        ...

    def devices(self, layout: Layout) -> list[str]:
        """The names of the layout's devices, by which all processes claim them. The layout has passed the check."""
        ...

    def held(self, layouts: Sequence[Layout]) -> AbstractContextManager[None]:
        """Start what all cuts of a claim share, such as a daemon, for the time of a `with` block.

        Args:
            layouts: All layouts that may be cut, any number of times. They have passed the check and are claimed.

        Raises:
            MachineError: if it cannot be started.
        """
        ...

    def cut(self, layout: Layout) -> AbstractContextManager[Instances]:
        """Cut the devices of a layout for the time of a `with` block, within `held`.

        If cuts may coexist (`BackendEntry.coexists`), several such blocks may be open at once.

        Raises:
            MachineError: if they cannot be cut.
        """
        ...
