"""Code blocks of the pages: commands have all their options, files are valid, and Python runs."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from conftest import two_cores
from pages import gmi_drl

from gmi_drl.cli.commands import load
from gmi_drl.files import parse
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.layout import GmiGroup, Layout

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TINY = ["--num-env", "4", "--gmis-per-gpu", "1", "--set", "learner.horizon=4", "--set", "learner.epochs=1"]


def code(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def commands(page):
    """The command lines of ours in the blocks of a page, without comments."""
    for block in re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in re.findall(r"^(?:\S*\$ |\.\S*/)?gmi-drl (.*)$", block, re.MULTILINE):
            yield shlex.split(line.replace("~/envs/gym/bin/python", sys.executable), comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_all_their_options(page):
    for name, *arguments in commands(page):
        load(name).make_context(name, arguments)


def test_many_commands_are_found():
    assert sum(len(list(commands(page))) for page in PAGES) > 50


def test_files_on_pages_are_valid(tmp_path):
    (layout,) = code("guides/roles.md", "yaml")
    assert len(parse(Layout, yaml.safe_load(layout), "page").gmis) == 5
    (channels,) = code("guides/asynchronous.md", "yaml")
    assert parse(Channels, yaml.safe_load(channels)["channels"], "page") == Channels()
    (groups,) = code("concepts/reductions.md", "yaml")
    assert parse(GmiGroup, yaml.safe_load(groups)["groups"]["trainers"], "page").reduction == "HAR"
    (cluster,) = code("concepts/plans.md", "yaml")
    assert parse(Cluster, yaml.safe_load(cluster), "page").count == 2


@two_cores
def test_plan_and_train_run_as_the_first_page_says(tmp_path, monkeypatch, capsys):
    (text,) = code("start/first_run.md", "python")
    small = text.replace("budget=30", "budget=0, num_env=4, gmis_per_gpu=1").replace("iterations=100", "iterations=2")
    assert small != text
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path / "claims"))
    exec(small, {})
    assert capsys.readouterr().out.splitlines()[-1].split()[1] == "2"


def test_kept_experience_is_read_as_the_page_says(tmp_path, monkeypatch):
    claims = {"GMI_DRL_CLAIMS": str(tmp_path / "claims")}
    trained = gmi_drl(["train", "--run-dir", "run", "--iterations", "1", *TINY], tmp_path, **claims)
    assert trained.returncode == 0, trained.stderr
    serve = ["serve", "run", "--steps", "100", "--num-env", "4", "--gmis-per-gpu", "1", "--experience", "seen"]
    assert gmi_drl(serve, tmp_path, **claims).returncode == 0
    (text,) = code("guides/serving.md", "python")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(text, found)
    assert found["batch"]["obs"].shape[1] == 60


def test_the_environment_for_rsl_rl_is_made():
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (text,) = code("guides/from_rsl_rl.md", "python")
    found = {}
    exec(text, found)
    assert found["env"].num_envs == 64
