"""The wheel has all that a training needs, outside of the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import environment

ROOT = Path(__file__).parents[2]
SCRIPT = """
import gmi_drl

layout = gmi_drl.plan(budget=0, gmis_per_gpu=1, num_env=4).layout
settings = {"learner.horizon": 4, "learner.epochs": 1}
run = gmi_drl.train(layout, iterations=2, run_dir="run", settings=settings)
print(gmi_drl.__file__, run.state, run.iteration)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder into which the wheel was unpacked."""
    pytest.importorskip("setuptools", minversion="77", reason="builds the wheel without a network")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # setuptools builds beside its source, and would take what an earlier build has left
    shutil.copytree(ROOT / "gmi_drl", source / "gmi_drl")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, source]
    run = subprocess.run(line, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "gmi")
    return folder / "gmi"


def test_it_trains_outside_of_the_checkout(wheel, tmp_path):
    env = environment() | {"PYTHONPATH": str(wheel), "GMI_DRL_CLAIMS": str(tmp_path / "claims")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(wheel / "gmi_drl" / "__init__.py"), "done", "2"]


def test_it_has_only_the_package(wheel):
    assert {name for name in os.listdir(wheel) if not name.endswith(".dist-info")} == {"gmi_drl"}
    assert (wheel / "gmi_drl" / "py.typed").is_file()
