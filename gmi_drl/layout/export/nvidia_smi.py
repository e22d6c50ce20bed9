"""`plan --format nvidia-smi`: the commands that make the MIG instances of a layout, and those that undo them.

Grammar (`nvidia-smi mig --help`): a profile is given by its name, with `:START` for its first memory slice; `-C` makes
the default compute instance in each, `-cci` others. The driver chooses the ids of instances, so none is used.
"""

from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import INDICES, CutGpu, There, commented, gpus_of
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.mig_instances import compute_names, placed


def nvidia_smi(layout: Layout, node: Node, there: There = ()) -> str:
    """A shell script that stops at the first command that fails. A comment at its end has the commands to undo it."""
    gpus = gpus_of(layout, node, there)
    make = _compute_instances if layout.backend == "mig-ci" else _gpu_instances
    head = [
        *([] if there else [INDICES]),
        "Run as root, on idle GPUs that hold no instances (nvidia-smi mig -lgi). An A100 or A30 may have to be reset",
        "before MIG mode is on (nvidia-smi -i GPU --gpu-reset).",
    ]
    undo = [
        "To undo it, when nothing runs on the instances (the end of a line only where MIG mode was off before):",
        *(_undo(gpu) for gpu in gpus),
    ]
    commands = [line for gpu in gpus for line in (f"nvidia-smi -i {gpu.name} -mig 1", *make(gpu))]
    return "#!/bin/sh\n" + commented(head) + "set -e\n" + "\n".join(commands) + "\n" + commented(undo)


def _gpu_instances(gpu: CutGpu) -> list[str]:
    tuples = ",".join(f"{instance.profile.name}:{instance.start}" for instance in placed(gpu))
    return [f"nvidia-smi mig -i {gpu.name} -cgi {tuples} -C"]


def _compute_instances(gpu: CutGpu) -> list[str]:
    """Commands for one GPU instance, in which the compute instances must then lie."""
    whole, names = compute_names(gpu)
    return [
        f"nvidia-smi mig -i {gpu.name} -cgi {whole.name}:{whole.starts[0]}",
        f"nvidia-smi mig -i {gpu.name} -cci {','.join(names)}",
    ]


def _undo(gpu: CutGpu) -> str:
    i = gpu.name
    return f"nvidia-smi mig -i {i} -dci; nvidia-smi mig -i {i} -dgi; nvidia-smi -i {i} -mig 0"
