"""All generated pages by their names in the site."""

from collections.abc import Callable
from functools import cache

from tools.site.commands import commands_page
from tools.site.errors import errors_page
from tools.site.metrics import metrics_page
from tools.site.models import file_pages
from tools.site.network import network_page
from tools.site.python_api import python_page
from tools.site.results import THEMES, results_pages

FILES = ("config", "layout", "node", "cluster", "replay_tables", "worker_profile", "profile")
SINGLE: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/metrics.md": metrics_page,
    "reference/errors.md": errors_page,
    "reference/python.md": python_page,
    "results/network.md": network_page,
}


def generated_names() -> list[str]:
    """The names of all generated pages, without making them."""
    files = [f"reference/{name}.md" for name in FILES]
    return [*SINGLE, *files, *(f"results/{theme}.md" for theme in ("index", *THEMES))]


@cache
def generated_pages() -> dict[str, str]:
    """The text of each generated page in Markdown."""
    single = {name: make() for name, make in SINGLE.items()}
    return {**single, **file_pages(), **results_pages()}
