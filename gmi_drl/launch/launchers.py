"""The launchers: GMIs are started by this machine, or by supervisors on the nodes of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from gmi_drl.errors import UsageError, did_you_mean
from gmi_drl.launch.nodes.supervisor_starters import SupervisorStarter
from gmi_drl.layout.layout import Layout

LOCAL, RAY = "local", "ray"
LAUNCHERS = (LOCAL, RAY)
ONLY_NODE = "node"
"""The node's name on a cluster for a layout that names no nodes."""


def layout_for(launcher: str, layout: Layout) -> Layout:
    """The layout for this launcher: on a cluster every device is on a named node.

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
    """Yield what starts supervisors on the nodes of a layout, for the time of a `with` block; None for this machine.

    Args:
        launcher: `local`, or `ray`: the cluster at `RAY_ADDRESS`, else one that runs here, else a new local one.
        layout: A layout of `layout_for`.

    Raises:
        GmiError: if the cluster cannot be reached, or has no room for the layout.
    """
    if launcher == LOCAL:
        yield None
        return
    from gmi_drl.launch.ray.client import ray_client

    with ray_client(layout) as supervisors:
        yield supervisors
