"""`plan --format mig-parted`: the MIG instances of a node, as NVIDIA mig-parted and the GPU operator apply them.

The file is mig-parted's `api/spec/v1`. It counts instances by profile; where they lie the driver decides.
"""

from collections import Counter
from typing import Any

from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import INDICES, CutGpu, There, alike, commented, gpus_of, models_of
from gmi_drl.layout.export.pci_ids import PCI_IDS
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.mig_instances import compute_names, instance_names, placed
from gmi_drl.yaml_text import write_yaml

CONFIG = "gmi-drl"
"""The name of the only configuration in the file."""


def mig_parted(layout: Layout, node: Node, there: There = ()) -> str:
    """The YAML, with GPUs that are cut alike in one entry."""
    groups = alike(gpus_of(layout, node, there), lambda gpu: (gpu.model, _counts(gpu, layout.backend)))
    mixed = len(set(models_of(node))) > 1
    entries = [_entry(gpus, dict(counts), mixed) for (_, counts), gpus in groups.items()]
    head = [
        INDICES,
        "Apply as root, on idle GPUs:",
        f"nvidia-mig-parted apply -f FILE -c {CONFIG}",
    ]
    return commented(head) + write_yaml({"version": "v1", "mig-configs": {CONFIG: entries}})


def _counts(gpu: CutGpu, backend: str) -> tuple[tuple[str, int], ...]:
    """How often a GPU has each profile, by name."""
    if backend == "mig-ci":
        return tuple(Counter(compute_names(gpu)[1]).items())
    placed(gpu)  # refuses what does not fit
    return tuple(Counter(instance_names(gpu)).items())


def _entry(gpus: list[CutGpu], counts: dict[str, int], mixed: bool) -> dict[str, Any]:
    """One entry; where models differ it names its own by PCI id, as a driver may count them in another order."""
    entry: dict[str, Any] = {"devices": [gpu.number for gpu in gpus], "mig-enabled": True, "mig-devices": counts}
    if mixed and (pci_id := PCI_IDS.get(gpus[0].catalogued.name)):
        return {"device-filter": pci_id, **entry}
    return entry
