"""Who starts the GMIs of a layout: this machine, or agents on the nodes of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.launch.nodes.starters import SupervisorStarter
from gmi_drl.layout.layout import Layout

LOCAL, RAY = "local", "ray"
LAUNCHERS = (LOCAL, RAY)
ONLY_NODE = "node"
"""What the machine of a layout that names none is called on a cluster."""


def layout_for(launcher: str, layout: Layout) -> Layout:
    """The layout as this launcher has it: on a cluster every device is of a node that has a name.

    Raises:
        UsageError: if there is no such launcher.
    """
    if launcher not in LAUNCHERS:
        raise UsageError(f"there is no launcher {launcher!r}{did_you_mean(launcher, LAUNCHERS)}")
    if launcher == LOCAL or layout.nodes != (None,):
        return layout
    return layout.model_copy(
        update={"devices": tuple(device.model_copy(update={"node": ONLY_NODE}) for device in layout.devices)}
    )


@contextmanager
def supervisors_for(launcher: str, layout: Layout) -> Iterator[SupervisorStarter | None]:
    """What starts agents on the nodes of a layout, for the time of a `with` block; None for this machine's own.

    Args:
        launcher: `local` or `ray`: the cluster of `RAY_ADDRESS`, else the one that runs here, else one of our own.
        layout: From `layout_for`.

    Raises:
        GmiError: if the cluster cannot be reached, or has no room for the layout.
    """
    if launcher == LOCAL:
        yield None
        return
    from gmi_drl.launch.ray.client import ray_client

    with ray_client(layout) as agents:
        yield agents
