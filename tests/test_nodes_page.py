"""The ten described machines are planned for the reasons that docs/internals/ten_machines.md gives."""

import shutil
from pathlib import Path

import pytest
from pages import gmi_drl, lines, transcripts

from gmi_drl.config.run_config import default_config
from gmi_drl.files import load_yaml
from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler import plan_measured, profile_grid
from gmi_drl.scheduler.profile import load_profile
from gmi_drl.workload import TASK_SPECS

ROOT = Path(__file__).parent.parent
NODES = ROOT / "examples" / "nodes"
PAGE = (ROOT / "docs" / "internals" / "ten_machines.md").read_text()
ANT = TASK_SPECS["ant"]


def planned(name):
    node, profile = load_yaml(Node, NODES / f"{name}.yaml"), load_profile(NODES / "invented.json")
    learner = default_config(ANT).learner
    return node, plan_measured(ANT, learner, node, profile, profile_grid(profile, node, learner.horizon))


@pytest.mark.parametrize(
    ("name", "gpus", "backend", "gmis_each", "said"),
    [
        ("v100-x8", 8, "mps", 4, "1.28x the best by process"),
        ("a100-40-x8", 8, "mps", 4, "1.10x the best by mig"),
        ("a30-x4", 4, "mps", 4, "1.06x the best by mig"),
        ("h100-x2", 2, "mps", 4, "MPR-shm"),
        ("h100-x8", 8, "mps", 8, "1.14x the best by mig"),
        ("h200-x1", 1, "mps", 8, "8 GMIs on the GPU of h200-x1"),
        ("b200-x8", 8, "mps", 8, "1.52x the best of one GMI per device"),
        ("rtx4090-x2", 2, "mps", 4, "1.28x the best by process"),
        ("two-islands", 8, "mps", 8, "only PCIe is between GPUs 0-3 (NVLink) and GPUs 4-7 (NVLink)"),
    ],
)
def test_each_machine_is_planned_with_reasons(name, gpus, backend, gmis_each, said):
    node, plan = planned(name)
    text = " ".join(plan.layout.reasons)
    assert node.num_gpus == len(plan.layout.devices) == gpus and plan.layout.backend == backend
    assert {len(device.gmis) for device in plan.layout.devices} == {gmis_each}
    assert said in text and "no GPU was measured" in text and "x the best of one GMI per device" in text
    assert all(find_gpu(part.model) for part in node.gpu_models)


def test_unlike_gpus_are_cut_each_in_its_own_way():
    _, plan = planned("mixed")
    assert [len(device.gmis) for device in plan.layout.devices] == [4, 4, 4, 4, 7, 7]
    said = "its GPUs are unlike (A30, H100 PCIe), and each model is cut in its own way"
    assert any(said in reason and "1.18x the best of cutting all alike" in reason for reason in plan.layout.reasons)


def test_what_does_not_fit_or_cannot_be_cut_is_told():
    _, v100 = planned("v100-x8")
    assert [point.reason for point in v100.infeasible] == ["8 GMIs would take 15.0 GiB of a GPU's 15.8 GiB"]


def test_the_page_of_nodes_shows_every_file():
    shown = " ".join(" ".join(arguments) for arguments, _ in transcripts(PAGE))
    files = {path.name for path in NODES.iterdir()}
    assert len(files) == 11 and all(f"examples/nodes/{name}" in shown for name in files)


@pytest.mark.parametrize(("arguments", "shown"), transcripts(PAGE), ids=lambda given: "")
def test_the_page_of_nodes_shows_what_is_printed(arguments, shown, tmp_path):
    shutil.copytree(NODES, tmp_path / "examples" / "nodes")
    run = gmi_drl(arguments, tmp_path)
    assert run.returncode == 0 and lines(run.stdout) == lines(shown), run.stderr
