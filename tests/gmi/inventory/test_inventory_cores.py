import os

import pytest

from gmi_drl.gmi import inventory
from gmi_drl.gmi.inventory.cores import has_bf16


def cgroup_v2(root, quota):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/job/task\n")
    own = root / "sys/fs/cgroup/job/task"
    own.mkdir(parents=True)
    (own / "cpu.max").write_text("max 100000\n")
    (own.parent / "cpu.max").write_text(quota)


def cgroup_v1(root, quota):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("3:cpu,cpuacct:/job\n9:name=systemd:/\n")
    own = root / "sys/fs/cgroup/cpu/job"
    own.mkdir(parents=True)
    (own / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (own / "cpu.cfs_period_us").write_text("100000\n")


@pytest.mark.parametrize(("text", "quota"), [("150000 100000", 1.5), ("max 100000", None)])
def test_quota_of_cgroup_v2_counts_at_every_level(tmp_path, text, quota):
    cgroup_v2(tmp_path, text)
    assert inventory.cgroup_quota(tmp_path) == quota


@pytest.mark.parametrize(("microseconds", "quota"), [(250000, 2.5), (-1, None)])
def test_quota_of_cgroup_v1(tmp_path, microseconds, quota):
    cgroup_v1(tmp_path, microseconds)
    assert inventory.cgroup_quota(tmp_path) == quota


def test_cores_are_those_of_the_affinity_within_the_quota(tmp_path):
    affinity = sorted(os.sched_getaffinity(0))
    assert inventory.allowed_cores(tmp_path) == affinity
    cgroup_v2(tmp_path, "50000 100000")
    (core,) = inventory.allowed_cores(tmp_path)
    assert core in affinity


@pytest.mark.parametrize(("flags", "can"), [("fpu avx512_bf16 sse", True), ("fpu amx_bf16", True), ("fpu avx2", False)])
def test_whether_cores_multiply_in_bfloat16(tmp_path, flags, can):
    assert not has_bf16(tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert has_bf16(tmp_path) is can
