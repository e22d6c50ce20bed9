import os
import subprocess
import sys

import pytest

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi import ProcessBackend, allowed_cores, process
from gmi_drl.gmi.inventory import VisibleGpu
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.gmi.nvml.fake import FakeGpu


def layout(*cores, kind="cpu", index=0):
    gmis = tuple(GMI(id=i, num_env=1, cores=share) for i, share in enumerate(cores))
    return Layout(devices=(Device(kind=kind, index=index, gmis=gmis),))


@pytest.fixture
def backend():
    return ProcessBackend()


def test_the_environment_caps_threads_and_names_the_cores(backend, monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "7")
    with backend.cut(layout((0,))) as instances:
        environment = instances.environment(0)
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "1"
    assert environment["GMI_DRL_CPUS"] == str(allowed_cores()[0]) and environment["CUDA_VISIBLE_DEVICES"] == ""
    assert "GOMP_SPINCOUNT" not in environment
    assert environment["MALLOC_TRIM_THRESHOLD_"] == "7", "the user's own word counts"


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="needs two cores")
def test_a_gmi_of_several_cores_gets_the_spin_setting(backend):
    with backend.cut(layout((0, 1))) as instances:
        environment = instances.environment(0)
    assert environment["OMP_NUM_THREADS"] == "2" and int(environment["GOMP_SPINCOUNT"]) > 0


def test_what_a_node_lacks_is_told_with_the_numbers(backend):
    node = Node(name="n", cpu=Cpu(cores=4, memory_gib=1), gpus=Gpus(model="A100", count=1))
    assert backend.check(node, layout((999,))) == ["the layout uses cores 999, this process may use 0..3"]
    twice = Device(kind="cpu", index=0, gmis=(GMI(id=0, num_env=1, cores=(0, 1, 0)),))
    doubled = Layout(share_cores=True, devices=(twice,))
    assert backend.check(node, doubled) == ["GMI 0 has a core twice: name each once"]
    assert backend.check(node, layout((0,), kind="gpu")) == []
    assert "sees 0" in backend.check(Node(name="n", cpu=node.cpu), layout((0,), kind="gpu"))[0]


def test_devices_are_cores_and_gpus_by_names_of_the_machine(backend, monkeypatch):
    gpus = [VisibleGpu("A", uuid, 80.0, 0, "600.1") for uuid in ("GPU-a", "GPU-b")]
    monkeypatch.setattr(process, "visible_gpus", lambda: gpus)
    backend.cores = [4, 7]
    shared = layout((1,), (0,), kind="gpu", index=1)
    assert backend.devices(layout((1,))) == ["core-7"]
    assert backend.devices(shared) == ["core-4", "core-7", "gpu-GPU-b"]
    with backend.cut(shared) as instances:
        assert instances.environment(0)["CUDA_VISIBLE_DEVICES"] == "GPU-b"


def test_gmis_on_gpus_are_told_their_uuids_and_those_on_cores_none(backend, fake_nvml, monkeypatch):
    backend.cores = [4, 7]
    fake_nvml.add(*[FakeGpu()] * 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with backend.cut(layout((0,), (1,), kind="gpu")) as instances:
        assert [instances.environment(i)["CUDA_VISIBLE_DEVICES"] for i in (0, 1)] == [fake_nvml.uuid(1)] * 2
    fake_nvml.log_calls()
    with backend.cut(layout((0,))) as instances:
        assert instances.environment(0)["CUDA_VISIBLE_DEVICES"] == "" and fake_nvml.calls() == []
    with pytest.raises(LayoutMismatchError, match="uses GPU 1, this process sees 1"):
        backend.devices(layout((0,), kind="gpu", index=1))


def test_a_gpu_that_processes_cannot_share_is_refused(backend, fake_nvml, monkeypatch):
    backend.cores = [4, 7]
    fake_nvml.add(FakeGpu(mig=("3g.71gb",)), FakeGpu())
    node = Node(name="n", cpu=Cpu(cores=4, memory_gib=1), gpus=Gpus(model="A100", count=2))
    (reason,) = backend.check(node, layout((0,), kind="gpu"))
    assert reason.startswith("GPU 0 (") and "is in MIG mode: take `--backend mig`" in reason
    fake_nvml.write("gpus/1/compute_mode", 3)
    assert backend.check(node, layout((0,), kind="gpu", index=1)) == []
    (reason,) = backend.check(node, layout((0,), (1,), kind="gpu", index=1))
    assert "exclusive process, which 2 processes cannot share" in reason and "nvidia-smi -i 1 -c DEFAULT" in reason
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", fake_nvml.mig_uuids(0)[0])
    assert backend.check(node, layout((0,), (1,), kind="gpu")) == []
    assert backend.devices(layout((0,), (1,), kind="gpu"))[-1] == f"gpu-{fake_nvml.mig_uuids(0)[0]}"


def test_attachment_is_proved_on_the_living_process(backend):
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with backend.cut(layout((0,))) as instances:
            os.sched_setaffinity(sleeper.pid, {instances.cpus(0)[0]})
            instances.prove_attached(0, sleeper.pid)
            if len(allowed_cores()) > 1:
                os.sched_setaffinity(sleeper.pid, allowed_cores())
                with pytest.raises(LayoutMismatchError, match="is bound to CPUs"):
                    instances.prove_attached(0, sleeper.pid)
    finally:
        sleeper.kill()
        sleeper.communicate()
