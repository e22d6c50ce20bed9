"""The example plans are what docs/guides/other_machines.md says, chosen for the reasons it gives."""

import re
import shutil
from pathlib import Path

import pytest
from pages import gmi_drl, lines, transcripts

from gmi_drl.config.run_config import default_config
from gmi_drl.files import dump_yaml, load_yaml
from gmi_drl.hardware.node import Node
from gmi_drl.scheduler import plan_measured, profile_grid
from gmi_drl.scheduler.profile import load_profile
from gmi_drl.workload import TASK_SPECS

ROOT = Path(__file__).parent.parent
PLANS = ROOT / "examples" / "plans"
PAGE = (ROOT / "docs" / "guides" / "other_machines.md").read_text()


def planned(name, **changed):
    node = load_yaml(Node, PLANS / f"{name}.yaml").model_copy(update=changed)
    profile, ppo = load_profile(PLANS / f"{name}.json"), default_config(TASK_SPECS["ant"]).learner
    grid = profile_grid(profile, node, ppo.horizon)
    return plan_measured(TASK_SPECS["ant"], ppo, node, profile, grid)


@pytest.mark.parametrize(
    ("name", "devices", "gmis_each", "num_env", "cores_each", "projected"),
    [
        ("dgx-a100", 8, 3, 4096, {5, 6}, 8 * 164_655 / 2),
        ("h100-pair", 2, 2, 8192, {8}, 2 * 2 * 140_000),
        ("ten-thousand", 10_000, 4, 4096, {2}, 10_000 * 4 * 65_000),
    ],
)
def test_the_best_point_of_the_profile_is_planned(name, devices, gmis_each, num_env, cores_each, projected):
    chosen = planned(name)
    layout = chosen.layout
    assert len(layout.devices) == devices and {device.kind for device in layout.devices} == {"gpu"}
    assert {len(device.gmis) for device in layout.devices} == {gmis_each}
    assert {gmi.num_env for gmi in layout.gmis} == {num_env}
    assert {len(gmi.cores) for gmi in layout.gmis} == cores_each
    assert layout.groups["trainers"].members == tuple(range(devices * gmis_each))
    assert layout.projection.measured and chosen.candidates[0].projected == projected


@pytest.mark.parametrize("name", ["dgx-a100", "h100-pair", "ten-thousand"])
def test_every_plan_says_where_its_numbers_come_from(name):
    assert re.search(r"Table 7 of the paper.*made up|made-up numbers", " ".join(planned(name).layout.reasons))


def test_memory_that_nobody_measured_is_not_claimed():
    layout = planned("dgx-a100").layout
    assert layout.projection.memory_bytes is None and "0 B" not in " ".join(layout.reasons)


def test_the_link_changes_nothing_yet():
    assert planned("h100-pair", link="pcie").layout == planned("h100-pair", link="nvlink").layout


def test_the_page_names_every_example():
    assert all(f"`{path.name}`" in PAGE for path in PLANS.iterdir()) and len(list(PLANS.iterdir())) == 6


def test_a_plan_of_10_000_gpus_has_a_line_for_each_gmi():
    text = dump_yaml(planned("ten-thousand").layout)
    last = "{id: 39999, roles: [simulator, agent, trainer], num_env: 4096, cores: [79998, 79999]}"
    assert "index: 9999\n" in text and last in text


@pytest.mark.parametrize(("arguments", "shown"), transcripts(PAGE), ids=["h100-pair"])
def test_the_page_shows_what_is_printed(arguments, shown, tmp_path):
    shutil.copytree(PLANS, tmp_path / "examples" / "plans")
    run = gmi_drl(arguments, tmp_path)
    assert run.returncode == 0 and lines(run.stdout) == lines(shown), run.stderr
