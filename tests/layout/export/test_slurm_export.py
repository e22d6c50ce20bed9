import argparse
import re
import subprocess

import pytest
from layouts import A100, H100, backends, cut, even, exported, profiles  # noqa: F401

from gmi_drl.hardware.gpus import CATALOGUE
from gmi_drl.layout.export.slurm import gpu_type

pytestmark = pytest.mark.usefixtures("backends")

SBATCH = argparse.ArgumentParser(allow_abbrev=False)  # options of sbatch(1) that a layout needs
for option in ("--nodes", "--ntasks", "--cpus-per-task"):
    SBATCH.add_argument(option, type=int, required=True)
SBATCH.add_argument(
    "--gres", type=lambda text: [re.fullmatch(r"gpu:([\w.-]+):(\d+)", part) for part in text.split(",")]
)


def job(text):
    """CPUs and GPUs by type that a job asks for, read as sbatch does: options up to the first command."""
    assert text.startswith("#!/bin/bash\n") and all(line.startswith("#") for line in text.splitlines())
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    asked = SBATCH.parse_args(re.findall(r"^#SBATCH (\S+)$", text, re.MULTILINE))
    assert asked.nodes == asked.ntasks == 1
    return asked.cpus_per_task, {part[1]: int(part[2]) for part in asked.gres or []}


def test_a_job_asks_for_the_cores_that_gmis_count_in_and_for_whole_gpus():
    assert job(exported("slurm", cut("process", even(2), even(3)), A100, H100)) == (10, {"a100": 1, "h100": 1})
    assert job(exported("slurm", cut("process", even(2), kind="cpu"))) == (4, {})


def test_a_gmi_may_be_a_job_by_slurms_own_mps():
    text = exported("slurm", cut("mps", even(3), [{"share": 0.29}]), A100, A100)
    assert job(text) == (8, {"a100": 2})
    assert "# GMI 0-2: --gres=mps:33 --cpus-per-task=2\n# GMI 3: --gres=mps:29" in text
    assert "It caps each at what its job asks for" in text
    assert "It caps" not in exported("slurm", cut("mps", [{"share": 0.29}]), A100)
    assert "mps:" not in exported("slurm", cut("process", even(3)), A100)


def test_instances_of_mig_are_gpus_named_by_their_profiles():
    mig = cut("mig", even(7), profiles("3g.20gb", "1g.5gb+me"))
    assert job(exported("slurm", mig, A100, A100))[1] == {"1g.5gb": 8, "3g.20gb": 1}
    text = exported("slurm", cut("mig-ci", even(3)), H100)
    assert job(text)[1] == {"2c.7g.80gb": 3} and "AutoDetect=nvml" in text and "Gres=gpu:2c.7g.80gb:3" in text


@pytest.mark.parametrize(
    ("model", "kind"),
    [(A100, "a100"), ("Tesla V100-SXM2-16GB", "v100"), ("NVIDIA GeForce RTX 4090", "rtx_4090"), ("L40S", "l40s")],
)
def test_a_type_is_what_people_call_the_gpu(model, kind):
    assert gpu_type(model) == kind


@pytest.mark.parametrize("gpu", CATALOGUE, ids=lambda gpu: gpu.name)
def test_a_type_is_part_of_the_name_that_slurm_finds(gpu):
    assert re.fullmatch(r"[\w-]+", gpu_type(gpu.name)) and gpu_type(gpu.name) in gpu.name.lower().replace(" ", "_")
