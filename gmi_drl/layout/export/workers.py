"""Layouts over several machines, and which roles their GMIs have, for Slurm and Kubernetes.

Slurm, "Heterogeneous Job Support": a component for each kind of machine, divided by `#SBATCH hetjob`. KubeRay: a group
of equal pods for each kind of machine (`workerGroupSpecs`), a pod for each machine.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gmi_drl.layout.cut_gpus import commented
from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.units import counted
from gmi_drl.yaml_text import write_yaml

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Machines:
    """Machines of a layout that are alike.

    Args:
        nodes: Their names.
        cores: That the layout uses of each.
        gpus: That the layout uses of each.
        roles: What their GMIs do, in words.
    """

    nodes: tuple[str, ...]
    cores: int
    gpus: int
    roles: str

    @property
    def named(self) -> str:
        """How many, which, and what they do."""
        first, last = self.nodes[0], self.nodes[-1]
        names = first if first == last else f"{first} to {last}"
        return f"{counted(len(self.nodes), 'machine')} ({names}), on each {self.roles}"


def machines_of(layout: Layout) -> list[Machines]:
    """The machines of a layout, grouped by what is on them, in the order of the layout."""
    groups: dict[tuple[int, int, str], list[str]] = {}
    for node in layout.nodes:
        devices = layout.devices_on(node)
        gmis = [gmi for device in devices for gmi in device.gmis]
        cores = 1 + max(core for gmi in gmis for core in gmi.cores)
        gpus = sum(device.kind == "gpu" for device in devices)
        groups.setdefault((cores, gpus, roles_told(gmis)), []).append(node or "")
    return [Machines(tuple(nodes), *shape) for shape, nodes in groups.items()]


def roles_told(gmis: Iterable[GMI]) -> str:
    """How many GMIs have which roles: `2 x simulator, 1 x trainer`."""
    counts = Counter(" and ".join(gmi.roles) for gmi in gmis)
    return ", ".join(f"{count} x {roles}" for roles, count in counts.items())


def slurm_over_nodes(layout: Layout) -> str:
    """The head of a batch script of a heterogeneous job."""
    parts = []
    for group in machines_of(layout):
        asked = {"nodes": len(group.nodes), "ntasks-per-node": 1, "cpus-per-task": group.cores}
        asked |= {"gpus-per-node": group.gpus} if group.gpus else {}
        lines = "".join(f"#SBATCH --{option}={value}\n" for option, value in asked.items())
        parts.append(commented([group.named]) + lines)
    return "#!/bin/bash\n" + "#SBATCH hetjob\n".join(parts) + commented(NEXT)


def kubernetes_over_nodes(layout: Layout) -> str:
    """The groups of pods of a Ray cluster."""
    groups = machines_of(layout)
    specs = [
        {
            "groupName": f"group-{number}",
            "replicas": len(group.nodes),
            "resources": {"limits": {"cpu": group.cores, **({GPU: group.gpus} if group.gpus else {})}},
        }
        for number, group in enumerate(groups)
    ]
    told = [f"group-{number}: {group.named}" for number, group in enumerate(groups)]
    head = ["A pod for each machine, for the workerGroupSpecs of a RayCluster (examples/cluster/kuberay.yaml);"]
    return commented([*head, "`resources` are those of its container.", *told]) + write_yaml(
        {"workerGroupSpecs": specs}
    )


NEXT = ["Start Ray on all of them (examples/cluster/slurm.sh), then: gmi-drl train LAYOUT --launcher ray"]
