"""The pages of results: one for each theme, from the committed results of `gmi-drl bench`."""

from functools import cache
from pathlib import Path

from gmi_drl.benchmarks.cases import MODULES
from gmi_drl.benchmarks.report import Results, learning_table, limits, load_results, overview, section
from gmi_drl.benchmarks.stale import stale
from gmi_drl.errors import MachineError
from tools.site.markdown import page, table

FOLDER = Path(__file__).parents[2] / "benchmarks" / "results"
THEMES = {
    "training": ("Training", "What GMIs, learners and updates do, on their own and against one process."),
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
}
PACKAGES_OF = {"peers": "peers", "paper": "paper"}
INTRO = """Every figure of this project is a case of `gmi-drl bench`. The sides of a case are measured in turn. A
ratio above 1 is good for gmi-drl, for times as well as for speeds. It is the median over the rounds, with its 95 %
bootstrap interval, or with the range if there are fewer than five rounds. **All are of CPU cores; nothing was
measured on a GPU.** Figures that are not ratios depend on what else ran on the host."""


def theme_of(case: str) -> str:
    """The theme of a case, by its module."""
    *_, package, module = MODULES[case].split(".")
    for theme, modules in MODULES_OF.items():
        if module in modules:
            return theme
    return PACKAGES_OF.get(package, "training")


@cache
def results_pages() -> dict[str, str]:
    """The pages by name: one for each theme, and the list of themes."""
    results = load_results(FOLDER)
    old = _stale(results)
    pages = {}
    for theme, (title, words) in THEMES.items():
        chosen = {name: one for name, one in results.items() if theme_of(one.case.name) == theme}
        tasks = [learning_table(results)] if theme == "training" else []
        sections = [section(name, one, FOLDER, name in old) for name, one in chosen.items()]
        parts = [words, "", overview(chosen, old), *tasks, *sections, limits(chosen)]
        pages[f"results/{theme}.md"] = page(title, *parts)
    rows = [(f"[{title}]({theme}.md)", words) for theme, (title, words) in THEMES.items()]
    count = f"{len(results)} results, of which {len(old)} are stale: the code that they measure has changed since."
    pages["results/index.md"] = page("Results", INTRO, "", count, "", table(("theme", "what"), rows))
    return pages


def _stale(results: Results) -> dict[str, str]:
    """The stale results; none outside of a checkout with its history."""
    try:
        return stale(results)
    except MachineError:
        return {}
