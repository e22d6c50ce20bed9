"""Runs of GMIs on MIG devices, against stand-ins for NVML and CUDA."""

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from gmi_drl import run_role
from gmi_drl.errors import LayoutMismatchError
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.gmi.nvml.fake import FakeGpu

ROLE = f"{Path(__file__).parent / 'mig_roles.py'}:TellsDevice"
CUDA = Path(__file__).parents[1] / "gmi" / "mig" / "cuda.c"


def layout(backend, *profiles):
    gmis = tuple(GMI(id=i, num_env=1, cores=(0,), mig_profile=profile) for i, profile in enumerate(profiles))
    return Layout(backend=backend, share_cores=True, devices=(Device(kind="gpu", gmis=gmis),))


@pytest.fixture
def machine(fake_nvml, tmp_path, monkeypatch):
    """An H200 in three MIG instances, with a CUDA that knows them."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", CUDA], check=True, timeout=300)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}:{os.environ['LD_LIBRARY_PATH']}")
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path / "claims"))
    fake_nvml.add(FakeGpu(mig=("3g.71gb", "2g.35gb", "1g.18gb")))
    return fake_nvml


def test_each_gmi_computes_on_its_own_instance(machine, tmp_path):
    found = run_role(ROLE, layout("mig", None, "1g.18gb"), run_dir=tmp_path / "run")
    assert len(set(found.values())) == 2 and set(found.values()) < set(machine.mig_uuids(0))
    computing = machine.root.glob("gpus/0/gi/*/ci/*/processes/*")
    assert not [file for file in computing if psutil.pid_exists(int(file.name))]


def test_a_run_that_wants_more_instances_than_there_are_does_not_start(machine, tmp_path):
    with pytest.raises(LayoutMismatchError, match="has no MIG instance for GMI 3, it has"):
        run_role(ROLE, layout("mig", None, None, None, None), run_dir=tmp_path / "run")
