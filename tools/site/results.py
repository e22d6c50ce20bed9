"""The pages of results: the first page, and one for each theme, from the committed results of `gmi-drl bench`."""

import re
from functools import cache
from pathlib import Path

from gmi_drl.benchmarks.cases import MODULES
from gmi_drl.benchmarks.report import Results, learning_table, limits, load_results, overview, section
from gmi_drl.benchmarks.stale import stale
from gmi_drl.errors import MachineError
from gmi_drl.units import human_value
from tools.site.growth import growth_table
from tools.site.markdown import page, table

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "results"
THEMES = {
    "training": ("Training", "What GMIs, learners and updates do, on their own and against one process."),
    "replay": ("Replay", "Tables, rings, servers and shards. [How it works](../internals/replay.md)."),
    "workers": (
        "Workers and streams",
        "Requests for actions, and who answers them. [The guide](../guides/workers.md).",
    ),
    "growth": ("Growth", "How times grow with sizes."),
    "simulators": ("Simulators", "Steps of environments, without learning."),
    "reductions": ("Reductions", "Sums of gradients. [Which is fastest for which group](../reductions.md)."),
    "channels": ("Channels", "Experience from agents to trainers on other GMIs."),
    "plans": ("Plans", "What `gmi-drl plan` finds, and how long it takes. [How it works](../concepts/plans.md)."),
    "peers": ("Peers", "Against other libraries, each at its best."),
    "paper": ("The paper", "Figures and tables of GMI-DRL, on other devices than its own. [The map](../paper_map.md)."),
}
MODULES_OF = {
    "simulators": {"ant_step", "ant_simulators", "physics"},
    "reductions": {"reductions"},
    "channels": {"channels", "experience_on_gpu"},
    "plans": {"planning", "algorithm_2"},
    "workers": {"streams", "streams_far", "workers_inline_remote"},
    "growth": {"growth"},
    "replay": {
        *("replay", "replay_clients", "replay_face", "replay_gather", "replay_learning", "replay_rings"),
        *("replay_server", "replay_shards", "sequence_prefetch", "sequence_update"),
    },
}
PACKAGES_OF = {"peers": "peers", "paper": "paper"}
LIBRARIES = (
    *("cleanrl", "cpprb", "dm-reverb", "envpool", "gloo", "gymnasium", "horovod", "mjlab", "mpi4py", "pufferlib"),
    *("pyzmq", "rllib", "rsl_rl", "sample_factory", "sb3", "skrl", "torch", "torchrl"),
)
"""Other libraries; the name of a side against one begins so."""
BY_HAND = ("list", "multiprocessing.Queue", "own TCP sockets", "plain sockets", "two processes and a queue")
"""What a user could take from Python itself."""
INTRO = """Most figures of this project are of cases of `gmi-drl bench`, the others of scripts; [all
claims](../claims.md) have their commands. The sides of a case are measured in turn. A ratio above 1 is good for
gmi-drl, for times as well as for speeds. It is the median over the rounds, with its 95 % bootstrap interval, or with
the range if there are fewer than five rounds. Figures that are not ratios depend on what else ran on the host.
"""
LEARNT = """Returns beside those of other libraries, with the losses there, are in
[learns as well as](../claims.md#learns-as-well-as). Two and four GMIs under MPS on an H200 sum by torch's symmetric
memory in less than half of our time ([figures](../h200.md)).
"""
LOST = """All ratios below 1 against another library or what Python itself has; the case is linked. Where a case
loses against a layout of our own, or against a bare copy of the bytes, the page of its theme says it.
"""


def theme_of(case: str) -> str:
    """The theme of a case, by its module."""
    *_, package, module = MODULES[case].split(".")
    for theme, modules in MODULES_OF.items():
        if module in modules:
            return theme
    return PACKAGES_OF.get(package, "training")


@cache
def results_pages() -> dict[str, str]:
    """The pages by name: one for each theme, and the first page."""
    results = load_results(FOLDER)
    old = _stale(results)
    pages = {}
    for theme, (title, words) in THEMES.items():
        chosen = {name: one for name, one in results.items() if theme_of(one.case.name) == theme}
        tasks = [learning_table(results)] if theme == "training" else []
        tasks += [growth_table(results)] if theme == "growth" else []
        sections = [section(name, one, FOLDER, name in old) for name, one in chosen.items()]
        parts = [words, "", overview(chosen, old), *tasks, *sections, limits(chosen)]
        pages[f"results/{theme}.md"] = page(title, *parts)
    pages["results/index.md"] = first_page(results, old)
    return pages


def first_page(results: Results, old: dict[str, str]) -> str:
    """Where another tool wins and README's rows, then the themes."""
    on_gpu = [f"[{name}]({_place(name, one.case.name)})" for name, one in results.items() if one.machine.gpus]
    count = f"{len(results)} results, of which {len(old)} are stale: the code that they measure has changed since. "
    count += f"All were measured on CPU cores, but for {len(on_gpu)} on a GPU ({', '.join(on_gpu)}); "
    count += "scripts measured more [on an H200](../h200.md)."
    themes = [(f"[{title}]({theme}.md)", words) for theme, (title, words) in THEMES.items()]
    titles = ("case", "ours", "against", "ratio", "machine, day")
    parts = ["## Where another tool wins\n", LOST, table(titles, losses(results)), LEARNT]
    parts += ["## README's rows\n", readme_rows(results), "## All results\n", count, ""]
    return page("Results", INTRO, *parts, table(("theme", "what"), themes))


def losses(results: Results) -> list[tuple[str, ...]]:
    """A row for each ratio below 1 against another tool, the lowest first."""
    found = [
        (ratio.median, name, side)
        for name, result in results.items()
        if not result.case.is_baseline_first
        for side, ratio in result.ratios.items()
        if round(ratio.median, 2) < 1 and side.lower().startswith((*LIBRARIES, *BY_HAND))
    ]
    return [_loss(results, name, side) for _, name, side in sorted(found)]


def _loss(results: Results, name: str, side: str) -> tuple[str, ...]:
    result, ours = results[name], next(iter(results[name].summaries))
    first, other = (human_value(result.summaries[one].median, result.case.unit) for one in (ours, side))
    measured = f"{result.machine.cpu}, {result.machine.date[:10]}"
    link = f"[{name}]({_place(name, result.case.name)})"
    return link, f"{ours}, {first}", f"{side}, {other}", result.against(side), measured


def readme_rows(results: Results) -> str:
    """README's table of results, whose links lead to the sections of these pages."""
    lines = (ROOT / "README.md").read_text().partition("\n## Results\n")[2].partition("\n## ")[0].splitlines()

    def place(found: re.Match[str]) -> str:
        return f"]({_place(found[1], results[found[1]].case.name)})"

    rows = [line for line in lines if line.startswith("|")]
    return re.sub(r"\]\(benchmarks/results/(\w+)\.json\)", place, "\n".join(rows)) + "\n"


def _place(name: str, case: str) -> str:
    """Where a result is, as a link from the first page."""
    return f"{theme_of(case)}.md#{name}"


def _stale(results: Results) -> dict[str, str]:
    """The stale results; none outside of a checkout with its history."""
    try:
        return stale(results)
    except MachineError:
        return {}
