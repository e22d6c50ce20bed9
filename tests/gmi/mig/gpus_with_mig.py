"""GPUs as MIG has them, and who else uses them, for tests."""

import os
import subprocess
import sys
from contextlib import contextmanager

from gmi_drl.gmi.mig.state import ComputeInstance, GpuInstance, MigState
from gmi_drl.hardware.gpus import gpu_named

GPU = "GPU-0000aaaa-0000-0000-0000-000000000000"


def instance(number, profile, start, parts=None, model="A100-SXM4-40GB"):
    """A GPU instance with one compute instance, or with `parts` of so many slices each at so many."""
    size = gpu_named(model).profile(profile).size
    places = parts or [(profile, 0)]
    inside = tuple(ComputeInstance(i, name, at, f"MIG-{number}-{i}") for i, (name, at) in enumerate(places))
    return GpuInstance(number, profile, start, size, inside)


def state(*instances, enabled=True, model="A100-SXM4-40GB"):
    """A GPU with these instances."""
    return MigState(GPU, f"NVIDIA {model}", enabled, enabled, instances)


def folder_of(machine, uuid):
    """Where the fake NVML library has a MIG device of its first GPU."""
    return next(file.parent for file in machine.root.glob("gpus/0/gi/*/ci/*/uuid") if file.read_text().strip() == uuid)


HOLDER = """
import sys
from gmi_drl.gmi import claim
with claim(sys.argv[1:], "another run"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def claimed_by_another_process(device, folder=None):
    """Another run holds a device, perhaps that of another user, whose locks lie in another folder."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    own = {**os.environ, "GMI_DRL_CLAIMS": str(folder or os.environ["GMI_DRL_CLAIMS"])}
    with subprocess.Popen([sys.executable, "-c", HOLDER, device], env=own, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        yield
        other.communicate("")
