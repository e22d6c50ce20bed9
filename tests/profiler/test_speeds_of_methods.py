import pytest

from gmi_drl.errors import MachineError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.speeds import Speed
from gmi_drl.layout.reductions import HAR, IPC, MPR_GLOO, MPR_SHM, NCCL_FLAT
from gmi_drl.profiler import speeds
from gmi_drl.roles.probes.speed_probe import SpeedProbe

CORES = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))


def with_gpus(count):
    return CORES.model_copy(update={"gpus": Gpus(model="X", count=count)})


@pytest.mark.parametrize(
    ("node", "backend", "methods"),
    [
        (CORES, "process", [MPR_SHM, MPR_GLOO, HAR]),
        (with_gpus(1), "process", [MPR_SHM, MPR_GLOO, IPC, NCCL_FLAT]),
        (with_gpus(1), "mps", [MPR_SHM, MPR_GLOO, IPC, NCCL_FLAT]),
        (with_gpus(1), "mig", [MPR_SHM, MPR_GLOO, NCCL_FLAT]),
        (with_gpus(2), "process", [MPR_SHM, MPR_GLOO, HAR, NCCL_FLAT]),
    ],
    ids=["cores", "a GPU", "under MPS", "on MIG instances", "two GPUs"],
)
def test_what_is_legal_on_a_node_and_tells_of_a_way_is_measured_by_the_backend(node, backend, methods):
    layout = speeds._layout(node, backend)
    assert layout.backend == backend
    assert [group.reduction for group in layout.groups.values()] == [
        method.name for method in methods for _ in range(2)
    ]


def names(methods):
    return [method.name for method in methods]


SPEEDS = {
    name: Speed(round_s=1e-6 * number, bytes_per_second=1e9 * number)
    for number, name in enumerate(["memory", "gloo", "link", "ipc", "nccl"], start=1)
}


def times(methods, mapping):
    return {
        method: tuple(method.seconds(mapping, 4.0 * numel, SPEEDS) for numel in speeds.NUMELS) for method in methods
    }


@pytest.mark.parametrize(
    ("mapping", "methods", "ways"),
    [
        ([[0], [1]], (MPR_SHM, MPR_GLOO, HAR, NCCL_FLAT), {"memory", "gloo", "link", "nccl"}),
        ([[0, 1]], (MPR_SHM, MPR_GLOO, HAR, IPC, NCCL_FLAT), {"memory", "gloo", "ipc", "nccl"}),
        ([[0], [1]], (MPR_GLOO, HAR), {"gloo"}),
    ],
    ids=["two devices", "one GPU, without a link", "what HAR needs besides was not measured"],
)
def test_speeds_are_those_by_which_the_model_takes_as_long(mapping, methods, ways):
    fitted = speeds.fitted(times(methods, mapping), mapping)
    assert fitted.keys() == ways
    for way, speed in fitted.items():
        assert speed.round_s == pytest.approx(SPEEDS[way].round_s, rel=1e-3)
        assert speed.bytes_per_second == pytest.approx(SPEEDS[way].bytes_per_second, rel=1e-3)


def test_a_method_that_the_machine_cannot_loses_no_other(monkeypatch):
    def median_s(self, name, numel, seconds):
        if name == "NCCL-flat-1000":
            raise MachineError("this build of torch has no NCCL")
        return float(numel)

    monkeypatch.setattr(SpeedProbe, "_median_s", median_s)
    probe = SpeedProbe.__new__(SpeedProbe)
    told = probe.GMI_run({"MPR-shm-1000": 1000, "NCCL-flat-1000": 1000, "IPC-1000": 1000}, seconds=0.1)
    assert told == {"MPR-shm-1000": 1000.0, "IPC-1000": 1000.0}
