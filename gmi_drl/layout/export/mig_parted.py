"""`plan --format mig-parted`: the MIG instances of a node, as NVIDIA mig-parted and the GPU operator apply them.

The file is mig-parted's `api/spec/v1`. It counts instances by profile; the driver places them.
"""

from collections import Counter
from typing import Any

from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import INDICES, CutGpu, There, alike, commented, gpus_of
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.mig_instances import compute_names, instance_names, placed
from gmi_drl.yaml_text import write_yaml

CONFIG = "gmi-drl"
"""The name of the only configuration in the file."""

PCI_IDS = {
    "A100-SXM4-40GB": "0x20B010DE",
    "A100-PCIE-40GB": "0x20F110DE",
    "A100-SXM4-80GB": "0x20B210DE",
    "A100 80GB PCIe": "0x20B510DE",
    "A30": "0x20B710DE",
    "H100 80GB HBM3": "0x233010DE",
    "H100 PCIe": "0x233110DE",
    "H100 NVL": "0x232110DE",
    "GH200 480GB": "0x234210DE",
    "H200": "0x233510DE",
    "H200 NVL": "0x233B10DE",
    "B200": "0x290110DE",
    "GB200": "0x294110DE",
    "RTX PRO 6000 Blackwell Server Edition": "0x2BB510DE",
}
"""PCI ids by the catalogue's names, as mig-parted's `device-filter` has them: device, then NVIDIA's 10DE.

Which ids have which profiles is from NVIDIA mig-parted, `deployments/systemd/config-default.yaml`. Which id is which
model was compared with Debian's `pci.ids` of 2023 for A100, A30, H100 SXM and PCIe; for later models it is from the
comments of mig-parted's file. None was tried on a GPU.
"""


def mig_parted(layout: Layout, node: Node, there: There = ()) -> str:
    """The YAML file. GPUs that are cut alike share an entry."""
    groups = alike(gpus_of(layout, node, there), lambda gpu: (gpu.model, _counts(gpu, layout.backend)))
    mixed = len(set(node.model_of_each_gpu)) > 1
    entries = [_entry(gpus, dict(counts), mixed) for (_, counts), gpus in groups.items()]
    head = [
        INDICES,
        "Apply as root, on idle GPUs:",
        f"nvidia-mig-parted apply -f FILE -c {CONFIG}",
    ]
    return commented(head) + write_yaml({"version": "v1", "mig-configs": {CONFIG: entries}})


def _counts(gpu: CutGpu, backend: str) -> tuple[tuple[str, int], ...]:
    """The number of instances of each profile on a GPU."""
    if backend == "mig-ci":
        return tuple(Counter(compute_names(gpu)[1]).items())
    placed(gpu)  # refuses what does not fit
    return tuple(Counter(instance_names(gpu)).items())


def _entry(gpus: list[CutGpu], counts: dict[str, int], mixed: bool) -> dict[str, Any]:
    """One entry. If models differ, it has their PCI id, since a driver may number GPUs in another order."""
    entry: dict[str, Any] = {"devices": [gpu.number for gpu in gpus], "mig-enabled": True, "mig-devices": counts}
    if mixed and (pci_id := PCI_IDS.get(gpus[0].catalogued.name)):
        return {"device-filter": pci_id, **entry}
    return entry
