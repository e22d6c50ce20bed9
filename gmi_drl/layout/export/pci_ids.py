"""PCI ids of the GPUs that have MIG, as mig-parted's `device-filter` writes them: device, then NVIDIA's 10DE.

By the catalogue's names (`hardware/gpus.py`). NVIDIA mig-parted, `deployments/systemd/config-default.yaml`, tells which
ids have which profiles. Which id is which model was held against Debian's `pci.ids` of 2023 for A100, A30, H100 SXM and
PCIe; it knows no later models, whose ids rest on the comments of mig-parted's file. None was tried on a GPU.
"""

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
