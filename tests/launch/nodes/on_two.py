"""Layouts over two nodes, whose agents are processes of this machine."""

from conftest import tiny_config

from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout


def over(*nodes, gmis=2, num_env=8):
    """`gmis` GMIs on a device of each node (None: of this machine), which take turns on its first core."""
    devices = []
    for number, node in enumerate(nodes):
        ids = range(number * gmis, (number + 1) * gmis)
        parts = tuple(GMI(id=gmi_id, num_env=num_env, cores=(0,)) for gmi_id in ids)
        devices.append(Device(node=node, kind="cpu", index=0 if node else number, gmis=parts))
    everyone = GmiGroup(members=tuple(range(len(nodes) * gmis)), reduction="HAR")
    return Layout(
        task="ant", template="TCG_EX", share_cores=True, devices=tuple(devices), groups={"trainers": everyone}
    )


def config(**more):
    return tiny_config(**more)
