"""`gmi-drl plan` for templates whose roles have GMIs of their own: cut, and not measured."""

from pathlib import Path

import pytest

from gmi_drl.files import load_yaml
from gmi_drl.layout.layout import Layout


@pytest.fixture
def node(tmp_path):
    """Two cores."""
    (tmp_path / "node.yaml").write_text("{version: 1, name: pair, cpu: {cores: 2, memory_gib: 8}}")
    return "node.yaml"


def test_a_layout_is_written_and_says_who_does_what(command_line, node):
    asked = ("--gmis-per-gpu", 3, "--num-env", 64, "--share-cores")
    code, out, _ = command_line("plan", "--node", node, "--template", "TDG_EX", *asked)
    assert code == 0 and "GMI 0: 64 environments on core 0" in out and "gmi-drl train layout.yaml" in out
    assert "GMI 1: agent on core 1" in out and "GMI 2: trainer on core 0" in out
    layout = load_yaml(Layout, Path("layout.yaml"))
    assert [gmi.roles for gmi in layout.gmis] == [("simulator",), ("agent",), ("trainer",)] and layout.share_cores


@pytest.mark.parametrize(("template", "gmis"), [("decoupled", 2), ("TDG_EX", 3), ("TDG", 2)])
def test_one_gpu_has_as_many_gmis_as_the_template_needs(command_line, node, template, gmis):
    gpu = "{version: 1, name: one, gpus: {model: A100-40GB, count: 1}, cpu: {cores: 8, memory_gib: 64}}"
    Path(node).write_text(gpu)
    code, out, _ = command_line("plan", "--node", node, "--template", template, "--budget", 0, "--num-env", 64)
    assert code == 0 and len(load_yaml(Layout, Path("layout.yaml")).gmis) == gmis, out


def test_serving_takes_two_cores(command_line, node):
    code, out, _ = command_line("plan", "--node", node, "--template", "TDG", "--num-env", 64)
    assert code == 0 and "gmi-drl serve RUN layout.yaml" in out and "1 simulator for one agent" in out


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            ("--template", "TDG_EX"),
            "differ, so measuring one does not tell how fast a layout is: plan without",
        ),
        (("--template", "TDG", "--budget", "5"), "--template TDG --budget 0 --gmis-per-gpu K"),
        (("--template", "TDG_EX", "--profile", "p.json"), "plan without measuring"),
        (("--template", "TDG_EX", "--profile", "p.json", "--what-if", "node.yaml"), "plan without measuring"),
    ],
)
def test_nothing_is_measured_of_gmis_that_are_unlike(command_line, node, asked, message):
    code, _, err = command_line("plan", *asked)
    assert code == 2 and message in " ".join(err.split())


def test_too_few_gmis_are_refused_with_the_number(command_line, node):
    code, _, err = command_line("plan", "--node", node, "--template", "TDG_EX", "--num-env", 64)
    told = " ".join(err.split())
    assert code != 0 and "needs 3 GMIs on each device (simulator, agent, trainer), not 2 GMIs" in told
    assert "--share-cores" in told
