"""Which GPUs, or which of their MIG instances, the GMIs of a layout run on."""

from collections.abc import Callable, Mapping

from gmi_drl.layout.layout import Layout

Watched = dict[str, int]
"""Indices of GPUs in the layout, by the UUID of the GPU or of a MIG device of it, as CUDA_VISIBLE_DEVICES takes it."""


def watched_gpus(layout: Layout, environment: Callable[[int], Mapping[str, str]]) -> Watched:
    """Those that the processes of a layout see; none where it has cores only.

    Args:
        layout: Whose GMIs.
        environment: The variables of each (`Instances.environment`): whatever has cut the devices, it tells there what
            a GMI sees.
    """
    return {
        uuid: device.index
        for device in layout.devices
        if device.kind == "gpu" and device.node is None  # others are not seen from here
        for gmi in device.gmis
        if (uuid := environment(gmi.id).get("CUDA_VISIBLE_DEVICES"))
    }
