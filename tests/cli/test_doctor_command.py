import json

import pynvml
import pytest

from gmi_drl.cli.doctor import command, gpus
from gmi_drl.comm.memory import pinned
from tests.gmi.nvml.fake import FakeGpu


def test_a_machine_that_can_train(command_line):
    code, out, _ = command_line("doctor", "--format", "json")
    checks = {row["check"]: row for row in json.loads(out)["checks"]}
    assert code == 0 and checks["torch"]["verdict"] == checks["mujoco"]["verdict"] == checks["cores"]["verdict"] == "ok"


def test_a_machine_that_cannot(command_line, monkeypatch):
    missing = command.Check("mujoco", lambda: ("no", "pip install 'gmi-drl[mujoco]'"))
    monkeypatch.setattr(
        command, "CHECKS", (missing, command.Check("GPUs", lambda: ("none", "buy one"), is_needed=False))
    )
    code, out, err = command_line("doctor")
    assert code == 4 and "pip install 'gmi-drl[mujoco]'" in out and "this machine cannot train: mujoco" in err
    assert "buy one" in out


@pytest.mark.parametrize(
    ("mujoco", "following"), [(("4.0", ""), "Next: gmi-drl train ant"), (("no", "pip"), "Our own tasks need mujoco")]
)
def test_the_last_line_is_what_to_do_next(command_line, monkeypatch, mujoco, following):
    monkeypatch.setattr(command, "CHECKS", (command.Check("mujoco", lambda: mujoco, is_needed=False),))
    code, _, err = command_line("doctor")
    assert code == 0 and f"This machine can train. {following}" in err


def test_a_check_that_fails_is_a_finding_not_a_crash(command_line, monkeypatch):
    def broken():
        raise OSError("permission denied")

    monkeypatch.setattr(command, "CHECKS", (command.Check("shared memory", broken),))
    code, out, _ = command_line("doctor")
    assert code == 4 and "permission denied" in out


def test_core_ranges():
    assert gpus.ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


A100 = "NVIDIA A100-SXM4-40GB"


@pytest.fixture
def found(command_line):
    """What `doctor` finds, by check, and its whole document."""

    def look():
        code, out, _ = command_line("doctor", "--format", "json")
        document = json.loads(out)
        assert code == 0
        return {row["check"]: row for row in document["checks"]}, document

    return look


def test_gpus_are_described(found, fake_nvml):
    fake_nvml.add(FakeGpu(A100), FakeGpu(A100), FakeGpu(mig=("3g.71gb",)))
    fake_nvml.nvlink(0, 1)
    fake_nvml.write("gpus/0/ancestor/1", 10)
    checks, document = found()
    assert checks["driver"]["seen"] == "580.95.05, CUDA up to 13.0"
    assert checks["GPUs"]["seen"].splitlines() == [
        f"GPUs 0-1: 2 x {A100}, sm_80, 108 SMs, 40 GiB, MIG off",
        "GPU 2: NVIDIA H200, sm_90, 132 SMs, 140.4 GiB, MIG on",
        f"on GPU 2: MIG 3g.71gb, 60 SMs, 69.8 GiB, instance 2/0, {fake_nvml.mig_uuids(2)[0]}",
    ]
    assert checks["links"]["seen"].splitlines()[:3] == ["GPUs 0-1: nvlink", "the rest: pcie", "4 NVLinks: GPUs 0-1"]
    assert "PCIe through one PCIe switch: GPUs 0-1" in checks["links"]["seen"]
    assert document["gpus"][2]["mig_devices"][0]["profile"] == "3g.71gb" and document["driver"]["cuda"] == [13, 0]
    assert document["links"] == [{"gpus": [0, 1], "kind": "nvlink"}]


def test_paths_of_pcie_are_told_by_groups(found, fake_nvml):
    fake_nvml.add(*[FakeGpu(A100)] * 4)
    for one, other in [(0, 2), (0, 3), (1, 2), (1, 3)]:
        fake_nvml.write(f"gpus/{one}/ancestor/{other}", 50)
    told = found()[0]["links"]["seen"].splitlines()
    assert told == [
        "all: pcie",
        "PCIe within one NUMA node: GPUs 0-1 and GPUs 2-3",
        "PCIe between NUMA nodes: the others",
    ]


def test_each_backend_says_what_it_lacks(found, fake_nvml):
    checks, _ = found()
    assert checks["backend process"]["verdict"] == "ok" and checks["GPUs"]["verdict"] == "not here"
    fake_nvml.add(FakeGpu(mig=("3g.71gb",)))
    checks, _ = found()
    assert checks["backend process"]["verdict"] == "not here"
    assert "GPU 0 (NVIDIA H200) is in MIG mode" in checks["backend process"]["remedy"]


def test_what_a_backend_lacks_on_gpus_that_are_alike_is_told_once(found, fake_nvml):
    fake_nvml.add(*[FakeGpu(mig=())] * 8, FakeGpu(A100, mig=()))
    remedy = found()[0]["backend process"]["remedy"]
    assert remedy.count("is in MIG mode") == 2 and "GPU 0" in remedy and "GPU 8" in remedy
    remedy = found()[0]["backend mig"]["remedy"]
    assert "GPU 0" in remedy and "GPU 8" in remedy and "GPU 1 " not in remedy


@pytest.mark.parametrize(
    ("chosen", "remedy"),
    [
        ("0,7", "names '7', which is none of this machine's 2 GPUs"),
        ("0,1", "set CUDA_DEVICE_ORDER=PCI_BUS_ID"),
        ("GPU-0000,GPU-0001", ""),
    ],
)
def test_what_is_odd_about_the_chosen_gpus_is_told(found, fake_nvml, monkeypatch, chosen, remedy):
    fake_nvml.add(FakeGpu(A100), FakeGpu())
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    told = found()[0]["GPUs"]["remedy"]
    assert remedy in told and bool(told) == bool(remedy)


def test_a_gpu_without_mig_is_not_told_to_make_instances(found, fake_nvml):
    fake_nvml.add(FakeGpu("NVIDIA GeForce RTX 4090"))
    remedy = found()[0]["backend mig"]["remedy"]
    assert "has no MIG: take another --backend" in remedy and "--apply-mig" not in remedy


def test_gmis_of_an_example_are_told_as_such(found, fake_nvml):
    fake_nvml.add(FakeGpu(A100))
    assert found()[0]["backend mig"]["remedy"].startswith("for two GMIs of a GPU, as an example: GPU 0")


def test_a_driver_that_registers_no_memory_is_told_and_no_fault(found, fake_nvml, monkeypatch):
    assert found()[0]["registered memory"]["seen"] == "there is no GPU"
    fake_nvml.add(FakeGpu())
    monkeypatch.setattr(
        pinned, "try_to_register", lambda slot: "CUDA does not register memory of this host (error 801)"
    )
    told = found()[0]["registered memory"]
    assert told["verdict"] == "refused" and "error 801" in told["seen"] and "virtual machines" in told["remedy"]


def test_a_driver_that_fails_is_a_finding_told_once(command_line, fake_nvml):
    fake_nvml.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    code, out, _ = command_line("doctor")
    assert code == 0 and out.count("does not answer") == 1 and out.count("as driver") > 2


def test_what_a_killed_run_has_left_is_told_and_removed(command_line, fake_mps):
    from gmi_drl.gmi.mps import daemon
    from gmi_drl.gmi.mps.folder import control_of, made

    def told():
        _, out, _ = command_line("doctor", "--format", "json")
        (row,) = [row for row in json.loads(out)["checks"] if row["check"] == "stale MPS daemons"]
        return row

    with made() as (folder, _):
        assert told()["verdict"] == "ok"
    daemon.start(control_of(folder, 0), "GPU-a")
    assert str(folder) in told()["seen"] and told()["remedy"] == "gmi-drl doctor --remove-stale"
    assert told()["verdict"] == "left over" and fake_mps.processes()
    _, _, err = command_line("doctor", "--remove-stale")
    assert f"Removed what killed runs had left: {folder}" in err
    assert told()["verdict"] == "ok" and fake_mps.left() == []
