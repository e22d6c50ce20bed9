"""Every option, field, metric, exit code and error class is on a generated page, and the site needs no network."""

import re
from pathlib import Path

import pytest
import rich_click as click

from gmi_drl import errors
from gmi_drl.benchmarks.report import load_results
from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout
from gmi_drl.replay.server.settings import ReplayTables
from gmi_drl.run.metrics import NUMBERS
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.run.writers.tags import LEARNING_TIME, RSL_RL_TAGS
from gmi_drl.scheduler.profile import Profile
from gmi_drl.scheduler.worker_rates import WorkerProfile
from tools.site.commands import all_commands, commands_page
from tools.site.errors import CODES, error_classes, errors_page
from tools.site.fields import field_docs
from tools.site.growth import growth_table
from tools.site.metrics import metrics_page
from tools.site.models import file_pages, models_of, section
from tools.site.pages import FILES, generated_names, generated_pages
from tools.site.python_api import PUBLIC, python_page
from tools.site.results import FOLDER, losses, results_pages, theme_of

ROOT = Path(__file__).parents[2]
FOUND = {"config": RunConfig, "layout": Layout, "node": Node, "cluster": Cluster, "profile": Profile} | {
    "replay_tables": ReplayTables,
    "worker_profile": WorkerProfile,
}
MODELS = [(name, model) for name, whole in FOUND.items() for model in models_of(whole)]
MODELS += [("config", entry.model) for entry in LEARNERS.own]


@pytest.mark.parametrize(("name", "command"), list(all_commands()), ids=lambda value: getattr(value, "name", value))
def test_every_option_is_shown_with_its_meaning(name, command):
    part = commands_page().split(f"\n## {name}\n")[1].split("\n## ")[0]
    for option in command.params:
        if isinstance(option, click.Option):
            (row,) = re.findall(rf"^\| `{re.escape(', '.join(option.opts))}[ `].*$", part, re.MULTILINE)
            assert " ".join(option.help.partition("[default: ")[0].split()[:4]).replace("|", "\\|") in row


@pytest.mark.parametrize(("page", "model"), MODELS, ids=lambda value: getattr(value, "__name__", value))
def test_every_field_is_shown_with_its_meaning(page, model):
    text = file_pages()[f"reference/{page}.md"]
    assert set(FILES) == set(FOUND) and f"\n## {model.__name__}\n" in text
    assert model.model_fields.keys() <= field_docs(model).keys(), "a field has no docstring"
    prefix = "learner." if model in [entry.model for entry in LEARNERS.own] else ""
    for name, field in model.model_fields.items():
        assert f"| `{prefix}{field.alias or name}` |" in text
    assert section(model, prefix) in text


def test_defaults_and_types_are_told():
    text = file_pages()["reference/config.md"]
    row = next(line for line in text.splitlines() if "`learner.desired_kl`" in line)
    assert "number, > 0" in row and "`0.04`" in row and "refused without schedule adaptive" in row
    assert "| `learner.kind` | `ppo` | `ppo` |" in text and "| `time_limit_s` | number or null |" in text


def test_metrics_have_their_tags(tmp_path):
    text = metrics_page()
    for key in (*NUMBERS, *PHASE_NAMES, *RSL_RL_TAGS):
        assert f"| `{key}` |" in text
    for key, tag in RSL_RL_TAGS.items():
        assert f"| `{key}` | `{tag}` |" in text
    assert f"`{LEARNING_TIME}`" in text and "| `value_loss` | `Loss/value` |" in text
    assert "| `sim_s` | `GMI/sim_s` |" in text and "| `reward_mean` | `Reward/mean` |" in text


def test_every_exit_code_and_error_class_is_shown_with_a_remedy():
    text, classes = errors_page(), error_classes()
    assert errors.GmiError in classes and {cls.exit_code for cls in classes if hasattr(cls, "exit_code")} <= set(CODES)
    for cls in classes:
        (row,) = re.findall(rf"^\| `{cls.__name__}` .*$", text, re.MULTILINE)
        assert str(getattr(cls, "exit_code", "")) in row
    assert all(f"| {code} |" in text for code in CODES)


def test_the_python_page_has_all_that_is_public():
    text = python_page()
    assert all(f"\n## {name}\n" in text for name in PUBLIC) and "- `num_env`: Environments of each GMI" in text


def test_every_result_is_on_one_page_of_results():
    pages = {name: text for name, text in results_pages().items() if not name.endswith("index.md")}
    for file in FOLDER.glob("*.json"):
        assert [f"\n## {file.stem}\n" in text for text in pages.values()].count(True) == 1
    assert theme_of("gmis_512") == "training" and theme_of("ppo_ant_v5") == "peers"


@pytest.mark.parametrize(
    ("case", "theme"),
    [("replay_add", "replay"), ("shards_window", "replay"), ("streams_1kb", "workers"), ("growth_plans", "growth")],
)
def test_replay_workers_and_growth_are_themes_of_their_own(case, theme):
    assert theme_of(case) == theme and f"\n## {case}\n" in results_pages()[f"results/{theme}.md"]


def test_the_first_page_shows_where_another_tool_wins_and_links_it():
    text, results = results_pages()["results/index.md"], load_results(FOLDER)
    lowest, *_ = losses(results)
    assert lowest[0] == "[replay_add](replay.md#replay_add)" and lowest[2].startswith("cpprb")
    lost = [
        (name, str(ratio))
        for name, result in results.items()
        for side, ratio in result.ratios.items()
        if round(ratio.median, 2) < 1 and side in ("cpprb", "torchrl", "dm-reverb", "rsl_rl", "plain sockets")
    ]
    assert lost
    for name, ratio in lost:
        assert re.search(rf"^\| \[{name}\].*\| {re.escape(ratio)} \|", text, re.MULTILINE)


def test_the_first_page_has_the_rows_of_readme_and_says_what_a_gpu_measured():
    text = results_pages()["results/index.md"]
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if "](benchmarks/results/" in line]
    for name in re.findall(r"\[(\w+)\]\(benchmarks/results/\w+\.json\), ", "\n".join(rows)):
        assert re.search(rf"^\| .* \| \[{name}\]\(\w+\.md#{name}\), ", text, re.MULTILINE)
    for name, result in load_results(FOLDER).items():
        assert not result.machine.gpus or f"[{name}](" in text.partition("on a GPU (")[2]


def test_growth_tells_exponents_and_what_is_not_measured_yet():
    results = load_results(FOLDER)
    growth = growth_table(results)
    draw = "by items of the ring | 10,000 to 10,000,000 | 0.14 | 0.14 | nowhere | [replay_growth]"
    assert draw in growth and "by environments | 128 to 16,384 | 0.90 | 1.09 | nowhere |" in growth
    assert "(inserts), by clients | 1 to 200 | 0.99 | 1.22 | full at 2 | [replay_clients]" in growth
    page = (ROOT / "docs" / "internals" / "growth.md").read_text()
    rows = [row.rpartition(" | [")[0] for row in growth.splitlines() if row.startswith("| a")]
    assert len(rows) == 7 and all(row in page for row in rows)
    without = growth_table({name: result for name, result in results.items() if name != "growth_plans"})
    assert "by GPUs of the cluster |  | not measured yet |" in without


def test_names_are_known_without_making_the_pages():
    assert sorted(generated_names()) == sorted(generated_pages())


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="needs the extra [docs]")
    folder = tmp_path_factory.mktemp("site")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))  # strict: a warning is an error
    return folder


def test_the_site_loads_nothing_from_elsewhere(site):
    loads = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//|<link[^>]*\shref=[\"']?https?://")
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text())] == []
    styles = [style.read_text() for style in (site / "assets").rglob("*.css")]
    assert styles and not any(re.search(r"url\([\"']?https?:", style) for style in styles)


@pytest.mark.parametrize("words", ["desired_kl", "MPS", "resume", "a robot of your own"])
def test_the_search_knows(site, words):
    assert words.lower() in (site / "search" / "search_index.js").read_text().lower()
