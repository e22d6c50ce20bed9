from types import SimpleNamespace

import psutil
import pytest

from gmi_drl.errors import MachineError
from gmi_drl.hardware.host_memory import (
    SPARE_BYTES,
    available_bytes,
    check_available,
    machine_bytes,
    memory_bytes,
    memory_group,
)

MIB = 2**20
MACHINE = SimpleNamespace(total=1000 * MIB, available=600 * MIB)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: MACHINE)


def cgroups(root, line, **folders):
    """Files of the kernel below `root`: the process's own line, and of each folder its files, in MiB where numbers."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    for folder, files in folders.items():
        path = root / "sys/fs/cgroup" / folder.replace("__", "/").removeprefix("top")
        path.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            text = str(content * MIB) if isinstance(content, int) else content
            (path / name).write_text(f"{text}\n")


def v2(most, used, cached=0, **more):
    return {"memory.max": most, "memory.current": used, "memory.stat": f"anon 5\ninactive_file {cached * MIB}", **more}


def test_without_a_limit_it_is_the_machines(tmp_path):
    assert (memory_bytes(tmp_path), available_bytes(tmp_path)) == (1000 * MIB, 600 * MIB)
    cgroups(tmp_path, "0::/", top=v2("max", 900))
    assert (memory_bytes(tmp_path), available_bytes(tmp_path)) == (1000 * MIB, 600 * MIB)


@pytest.mark.parametrize("line", ["0::/", "0::/../elsewhere"], ids=["of a container", "seen from beside it"])
def test_a_containers_limit_counts_and_what_it_uses(tmp_path, line):
    cgroups(tmp_path, line, top=v2(128, 100))
    assert (memory_bytes(tmp_path), available_bytes(tmp_path)) == (128 * MIB, 28 * MIB)
    assert machine_bytes() == 600 * MIB, "of all its containers"


def test_limits_and_use_of_the_cgroups_above_count(tmp_path):
    cgroups(tmp_path, "0::/job/task\n", job__task=v2(300, 50), job=v2(200, 190))
    assert (memory_bytes(tmp_path), available_bytes(tmp_path)) == (200 * MIB, 10 * MIB)


def test_the_group_of_memory_is_the_folder_with_the_lowest_limit(tmp_path):
    assert memory_group(tmp_path) == "", "no limit"
    cgroups(tmp_path, "0::/job/task\n", job__task=v2(300, 50), job=v2(200, 190))
    lowest = (tmp_path / "sys/fs/cgroup/job").stat()
    assert memory_group(tmp_path) == f"{lowest.st_dev}:{lowest.st_ino}"


def test_pages_of_files_that_nobody_needs_are_available(tmp_path):
    cgroups(tmp_path, "0::/job\n", job=v2(200, 190, cached=40))
    assert available_bytes(tmp_path) == 50 * MIB


def test_where_the_kernel_begins_to_slow_processes_down_is_a_limit(tmp_path):
    cgroups(tmp_path, "0::/job\n", job=v2(200, 20, **{"memory.high": 150}))
    assert (memory_bytes(tmp_path), available_bytes(tmp_path)) == (150 * MIB, 130 * MIB)


def test_beyond_a_limit_nothing_is_available(tmp_path):
    cgroups(tmp_path, "0::/job\n", job=v2("max", 170, **{"memory.high": 150}))
    assert available_bytes(tmp_path) == 0


def test_cgroups_of_version_1_count_alike(tmp_path):
    stat = f"inactive_file 0\ntotal_inactive_file {30 * MIB}"
    job = {"memory.limit_in_bytes": 256, "memory.usage_in_bytes": 200, "memory.stat": stat}
    top = {"memory.limit_in_bytes": 2**43, "memory.usage_in_bytes": 500, "memory.stat": stat}
    cgroups(tmp_path, "9:name=systemd:/\n4:memory:/job\n0::/\n", memory__job=job, memory=top)
    assert (memory_bytes(tmp_path), available_bytes(tmp_path)) == (256 * MIB, 86 * MIB)


def test_what_does_not_fit_is_refused_with_the_numbers(monkeypatch):
    check_available(600 * MIB - SPARE_BYTES, "rooms", "use less")
    text = r"rooms need 536\.0 MiB of memory, but 600\.0 MiB are available, of which 64\.0 MiB are left alone: use less"
    with pytest.raises(MachineError, match=text):
        check_available(600 * MIB - SPARE_BYTES + 1, "rooms", "use less")
