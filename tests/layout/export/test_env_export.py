import shlex
import subprocess

import pytest
from layouts import A100, backends, cut, even, exported, profiles  # noqa: F401

from gmi_drl.layout.environment import NO_MPS, gmi_environment
from gmi_drl.layout.export.env import SPLIT

pytestmark = pytest.mark.usefixtures("backends")


def environments(text, folder):
    """What a process gets from each of the files, which a shell makes and reads."""
    subprocess.run(["sh", "-c", SPLIT], input=text, text=True, check=True, cwd=folder)
    found = {}
    for file in sorted(folder.glob("gmi-*.env")):
        script = f"set -a; . ./{shlex.quote(file.name)}; /usr/bin/env -0"
        shown = subprocess.run(
            ["env", "-i", "sh", "-c", script], cwd=folder, capture_output=True, text=True, check=True
        )
        pairs = dict(pair.partition("=")[::2] for pair in shown.stdout.split("\0") if pair)
        found[file.stem] = {name: value for name, value in pairs.items() if name not in ("PWD", "SHLVL", "_", "OLDPWD")}
    return found


def test_each_gmi_has_a_file_with_what_a_backend_sets(tmp_path):
    layout = cut("process", even(2), even(1))
    found = environments(exported("env", layout, A100, A100), tmp_path)
    assert found == {
        f"gmi-{gmi.id}": gmi_environment(gmi, gmi.cores, str(layout.device_of(gmi.id).index), False, {}) | NO_MPS
        for gmi in layout.gmis
    }


def test_on_cores_no_gpu_is_seen(tmp_path):
    found = environments(exported("env", cut("process", even(2), kind="cpu")), tmp_path)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found.values()] == ["", ""]
    assert [one["GMI_DRL_CPUS"] for one in found.values()] == ["0,1", "2,3"]


def test_a_client_of_mps_finds_the_daemon_of_its_gpu_and_its_limits(tmp_path):
    layout = cut("mps", [{"share": 0.29, "memory_limit_bytes": 3 * 2**30}, {}], even(3))
    text = exported("env", layout, A100, A100)
    found = environments(text, tmp_path)
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    assert [tuple(one.get(name) for name in names) for one in found.values()] == [
        ("0", "/tmp/nvidia-mps-gpu-0", "29"),
        ("0", "/tmp/nvidia-mps-gpu-0", None),
        *[("0", "/tmp/nvidia-mps-gpu-1", None)] * 3,
    ]
    assert found["gmi-0"]["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=3072M"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in found["gmi-1"]
    assert "CUDA_VISIBLE_DEVICES=1 CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps-gpu-1 " in text


@pytest.mark.parametrize(
    ("backend", "gmis", "told"),
    [
        ("mig", profiles("2g.10gb", "3g.20gb", "2g.10gb"), ["2g.10gb at 0", "3g.20gb at 4", "2g.10gb at 2"]),
        ("mig-ci", even(3), ["2c.7g.40gb, number 0", "2c.7g.40gb, number 1", "2c.7g.40gb, number 2"]),
    ],
)
def test_uuids_of_instances_are_left_to_whoever_makes_them(backend, gmis, told, tmp_path):
    text = exported("env", cut(backend, gmis), A100)
    assert all("CUDA_VISIBLE_DEVICES" not in one for one in environments(text, tmp_path).values())
    lines = [line for line in text.splitlines() if "the UUID of" in line]
    assert [each in line for each, line in zip(told, lines, strict=True)] == [True] * 3
