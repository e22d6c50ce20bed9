"""Nodes and layouts for the tests of exports, by backends that may be those of another package."""

import pytest

from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.backends import BACKENDS
from gmi_drl.layout.export import export
from gmi_drl.layout.layout import GMI, Device, Layout

ENTRY = """
from gmi_drl.layout.backends import BackendEntry
LIMITS = frozenset({"share", "memory_limit_bytes", "mig_profile"})
MPS, MIG, MIG_CI = (BackendEntry(name, "for tests", "nowhere:None", True, LIMITS) for name in ("mps", "mig", "mig-ci"))
"""


@pytest.fixture
def backends(install):
    """Backends that cut GPUs: those of this package, and stand-ins for what it lacks."""
    lacking = [f"{name} = toy_limits:{name.upper().replace('-', '_')}" for name in ("mps", "mig", "mig-ci")]
    wanted = [line for line in lacking if line.partition(" ")[0] not in [entry.name for entry in BACKENDS.own]]
    install({"gmi_drl.backends": "\n".join(wanted)}, {"toy_limits": ENTRY})


A100, H100 = "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"


def node(*models):
    """A machine with a GPU of each of these models."""
    gpus = tuple(Gpus(model=model, count=1) for model in models) or None
    return Node(name="box", gpus=gpus, cpu=Cpu(cores=64, memory_gib=100))


def cut(backend, *gpus, kind="gpu"):
    """A layout whose devices are lists of what each GMI has beside two cores and 64 environments."""
    ids = iter(range(1000))
    devices = [
        Device(kind=kind, index=index, gmis=tuple(_gmi(next(ids), more) for more in gmis))
        for index, gmis in enumerate(gpus)
    ]
    return Layout(backend=backend, devices=tuple(devices))


def _gmi(gmi_id, more):
    return GMI(id=gmi_id, num_env=64, cores=(2 * gmi_id, 2 * gmi_id + 1), **more)


def even(count):
    """GMIs that say nothing of their shares."""
    return [{}] * count


def profiles(*names):
    """GMIs that name their MIG profiles."""
    return [{"mig_profile": name} for name in names]


def exported(name, layout, *models):
    """The text for a machine with a GPU of each of these models."""
    return export(name, layout, node(*models))
