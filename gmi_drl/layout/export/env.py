"""`plan --format env`: the environment variables of each GMI's process, for starting GMIs without gmi-drl.

One document with a section for each GMI: `NAME=value` lines without quotes, as a shell, `docker --env-file` and
systemd's `EnvironmentFile` take them, after a comment with the name of its file. The variables are those that backends
set.
"""

from collections.abc import Iterator

from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import INDICES, CutGpu, There, commented, gpus_of
from gmi_drl.layout.environment import NO_GPU, NO_MPS, gmi_environment, mps_limits
from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.layout.mig_instances import compute_names, instance_names, placed

SPLIT = """awk '/^# gmi-[0-9]+[.]env /{file=$2} file{print > file}'"""
"""The command that splits the document into files."""


def env(layout: Layout, node: Node, there: There = ()) -> str:
    """The document with all sections."""
    gpus = {gmi.id: gpu for gpu in gpus_of(layout, node, there) for gmi in gpu.gmis}
    split = [f"gmi-drl plan ... --format env | {SPLIT}"]
    head = commented(
        [*([INDICES] if gpus else []), "Core numbers of the layout stand for CPU numbers. To files:", *split]
    )
    return head + "".join(_section(layout, gmi, gpus.get(gmi.id)) for gmi in layout.gmis)


def _section(layout: Layout, gmi: GMI, gpu: CutGpu | None) -> str:
    where = "cores" if gpu is None else f"GPU {gpu.number}"
    title = [f"gmi-{gmi.id}.env of GMI {gmi.id}, {gmi.num_env} environments on {where}"]
    shown = NO_GPU if gpu is None else gpu.name
    variables = gmi_environment(gmi, gmi.cores, shown, layout.share_cores, inherited={})
    variables |= NO_MPS if gpu is not None and layout.backend == "process" else {}
    notes: list[str] = []
    if gpu is not None and layout.backend == "mps":
        variables |= _of_mps(gpu, gmi)
        notes = list(_daemon(gpu, variables))
    elif gpu is not None and layout.backend in ("mig", "mig-ci"):
        del variables["CUDA_VISIBLE_DEVICES"]
        notes = [f"CUDA_VISIBLE_DEVICES=MIG-...: the UUID of {_instance(gpu, gmi, layout.backend)} (nvidia-smi -L)"]
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    return "\n" + commented([*title, *notes]) + lines


def _of_mps(gpu: CutGpu, gmi: GMI) -> dict[str, str]:
    """The variables of MPS. The GPU is the only one of its daemon, so clients see it as number 0."""
    folder = f"/tmp/nvidia-mps-gpu-{gpu.number}"
    where = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": f"{folder}-log"}
    return {"CUDA_VISIBLE_DEVICES": "0", **where, **mps_limits(gmi.share, gmi.memory_limit_bytes)}


def _daemon(gpu: CutGpu, variables: dict[str, str]) -> Iterator[str]:
    folders = " ".join(f"{name}={variables[name]}" for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"))
    yield f"Its daemon: CUDA_VISIBLE_DEVICES={gpu.name} {folders} nvidia-cuda-mps-control -d"


def _instance(gpu: CutGpu, gmi: GMI, backend: str) -> str:
    """The instance of a GMI in words: the n-th of its profile, in the order of GMIs."""
    place = gpu.gmis.index(gmi)
    if backend == "mig-ci":
        names = compute_names(gpu)[1]
        return f"{names[place]}, number {names[:place].count(names[place])} of GPU {gpu.number}"
    instances = placed(gpu)
    names = instance_names(gpu)
    starts = [instance.start for instance in instances if instance.profile.name == names[place]]
    return f"{names[place]} at {starts[names[:place].count(names[place])]} of GPU {gpu.number}"
