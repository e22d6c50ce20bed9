"""`plan --format slurm`: what a job with the layout requests from Slurm, and what the administrator must set up.

Slurm, "Generic Resource (GRES) Scheduling": a type must be a part of the GPU's NVML name, in lower case with `_` for
spaces. MPS is requested in hundredths of one GPU per job. MIG instances must exist; for Slurm they are GPUs whose type
ends in their profile (`AutoDetect=nvml`).
"""

import re
from collections import Counter

from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import CutGpu, There, alike, commented, gpus_of
from gmi_drl.layout.environment import thread_percentage
from gmi_drl.layout.export.workers import roles_told
from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.layout.mig_instances import compute_names, instance_names, placed
from gmi_drl.units import human_ranges


def slurm(layout: Layout, node: Node, there: There = ()) -> str:
    """The head of a batch script, to which users add their command."""
    gpus = gpus_of(layout, node, there)
    gres = _gres(gpus, layout.backend)
    asked = {
        "nodes": "1",
        "ntasks": "1",
        "cpus-per-task": str(1 + max(core for gmi in layout.gmis for core in gmi.cores)),
        **({"gres": ",".join(f"gpu:{kind}:{count}" for kind, count in gres.items())} if gres else {}),
    }
    lines = "".join(f"#SBATCH --{option}={value}\n" for option, value in asked.items())
    kinds = {gmi.roles for gmi in layout.gmis}
    roles = [f"GMIs: {roles_told(layout.gmis)}"] if len(kinds) > 1 else []
    notes = [*roles, *_set_up(gres, layout.backend), *(_mps_jobs(gpus) if layout.backend == "mps" else [])]
    return "#!/bin/bash\n" + lines + commented(notes)


def gpu_type(model: str) -> str:
    """The type of a GPU in Slurm: `A100-SXM4-40GB` -> `a100`, `NVIDIA GeForce RTX 4090` -> `rtx_4090`."""
    words = re.split(r"[\s_-]+", model)
    short = [word for word in words if re.fullmatch(r"[A-Z]{1,2}\d+[A-Z]?", word)]
    plain = [word for word in re.split(r"[\s_]+", model) if word.lower() not in ("nvidia", "geforce", "tesla", "")]
    return (short[0] if short else "_".join(plain)).lower()


def _gres(gpus: list[CutGpu], backend: str) -> Counter[str]:
    """The number of GPUs or instances of each type."""
    if backend not in ("mig", "mig-ci"):
        return Counter(gpu_type(gpu.model) for gpu in gpus)
    for gpu in gpus if backend == "mig" else ():
        placed(gpu)  # refuses what does not fit
    names = [name for gpu in gpus for name in (instance_names(gpu) if backend == "mig" else compute_names(gpu)[1])]
    return Counter(name.partition("+")[0] for name in names)


def _set_up(gres: Counter[str], backend: str) -> list[str]:
    """Remarks for the administrator."""
    if not gres:
        return []
    declared = ",".join(f"gpu:{kind}:{count}" for kind, count in gres.items())
    mig = ["The instances have to be there before slurmd starts (--format nvidia-smi or mig-parted)."]
    return [
        f"gres.conf of the node: AutoDetect=nvml; slurm.conf: GresTypes=gpu and NodeName=... Gres={declared}",
        *(mig if backend in ("mig", "mig-ci") else []),
    ]


def _mps_jobs(gpus: list[CutGpu]) -> list[str]:
    """The request of each GMI if Slurm runs the daemon of MPS, which gives a job hundredths of one GPU."""
    kinds = alike(((gpu, gmi) for gpu in gpus for gmi in gpu.gmis), lambda part: _job(*part))
    uncapped = any(gmi.share is None for gpu in gpus for gmi in gpu.gmis)
    caps = ["It caps each at what its job asks for; the layout does so only where it names a `share`."]
    jobs = [f"GMI {human_ranges(gmi.id for _, gmi in parts)}: {job}" for job, parts in kinds.items()]
    return [
        "gmi-drl runs a daemon of MPS of its own on these GPUs. Where Slurm has one instead (gres.conf: Name=mps",
        "Count=100 for each GPU), a GMI may be a job by itself, of one GPU:",
        *jobs,
        *(caps if uncapped else []),
    ]


def _job(gpu: CutGpu, gmi: GMI) -> str:
    return f"--gres=mps:{thread_percentage(gpu.part(gmi))} --cpus-per-task={len(gmi.cores)}"
