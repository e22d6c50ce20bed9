"""The progress of a training: a table redrawn in place on a terminal, elsewhere a line every ten seconds."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

import rich_click as click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gmi_drl.cli.output import say
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import PHASE_NAMES, PHASES, WAIT
from gmi_drl.run.verdict import RECENT, seconds_left, verdict
from gmi_drl.units import human_count, human_seconds

Phases = dict[str, float]

LEAST_WIDTH, LEAST_HEIGHT = 80, 12
PLAIN_EVERY_S = 10.0
REFRESH_S = 0.25
USAGE_TEXTS = {
    "sm_util": "{:.0f} % of SMs active",
    "sm_occupancy": "{:.0f} % occupancy",
    "dram_bandwidth": "{:.0f} % of DRAM bandwidth",
    "gpu_busy": "a kernel ran {:.0f} % of the time",
    "power_w": "{:.0f} W",
}
EVALUATED = ("eval_return_mean", "eval_length_mean")
"""Entries of a row of an iteration with an evaluation; the view shows them until the next one."""

CHROME_LINES = 11
"""Lines of the view that are not rows of GMIs."""


class TrainingView:
    """Shows rows of metrics on stderr as they come; stdout is for the result."""

    def __init__(self, layout: Layout, config: RunConfig, folder: RunFolder, *, quiet: bool) -> None:
        self.layout, self.config, self.folder = layout, config, folder
        self.console = Console(stderr=True, highlight=False)
        has_room = (
            self.console.is_terminal and self.console.width >= LEAST_WIDTH and self.console.height >= LEAST_HEIGHT
        )
        self.live = Live(console=self.console, auto_refresh=False) if has_room and not quiet else None
        self.is_lost = False
        self._evaluated: Row = {}
        self._recent: deque[Row] = deque(maxlen=RECENT)
        self.started = self.shown = 0.0  # set by the first row, as starting up is no training

    def announce(self) -> None:
        """Print that the training has begun; it may have been refused before."""
        gmis = f"{len(self.layout.gmis)} GMI{'s' * (len(self.layout.gmis) > 1)}"
        where = f"{self.layout.num_env} environments in {self.folder.path}"
        say(f"Training {self.layout.task} on {gmis} with {where}{self._sizes()}")

    def _sizes(self) -> str:
        """The sizes that grow with the number of GMIs; empty for one GMI."""
        each = {gmi.num_env for gmi in self.layout.with_role("simulator")}
        if len(self.layout.gmis) == 1 or len(each) > 1:
            return ""
        steps = self.config.learner.steps_of(self.layout)
        return f" ({each.pop()} per GMI; the GMIs together learn from {steps} steps per iteration)"

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            with suppress(OSError):
                self.live.stop()

    def show(self, row: Row) -> None:
        """Show one row of metrics. A terminal that is gone does not stop the training."""
        try:
            self._show(row)
        except OSError:
            self.is_lost = True

    def warn(self, text: str) -> None:
        """Print a warning, which does not end the training."""
        with suppress(OSError):
            self.console.print(f"Warning: {text}", markup=False, soft_wrap=True)

    def _show(self, row: Row) -> None:
        if "warning" in row:
            self.warn(row["warning"])
        now = time.monotonic()
        self.started = self.started or now
        self._recent.append(row)
        self._evaluated = {name: row[name] for name in EVALUATED if name in row} or self._evaluated
        row = row | self._evaluated
        is_last = row["iteration"] == self.config.iterations
        is_early = now - self.shown < (REFRESH_S if self.live else PLAIN_EVERY_S) and not is_last
        if self.is_lost or is_early:
            return
        self.shown = now
        if self.live:
            self.live.update(self._table(row), refresh=True)
        else:
            click.echo(plain_line(row, self.config.iterations), err=True)

    def _table(self, row: Row) -> Table:
        summary = Table.grid(padding=(0, 2))
        elapsed = human_seconds(time.monotonic() - self.started)
        limit = f" of {human_seconds(self.config.time_limit_s)}" if self.config.time_limit_s else ""
        summary.add_row("iteration", f"{row['iteration']} of {self.config.iterations}", "time", elapsed + limit)
        summary.add_row("env steps", human_count(row["env_steps"]), "steps/s", human_count(row["steps_per_second"]))
        summary.add_row("return", _or_dash(row["return_mean"]), "episode length", _or_dash(row["episode_length_mean"]))
        summary.add_row(
            "learning rate", f"{row['learning_rate']:.1e}", "bad environments", f"{row['bad_environments']:.0f}"
        )
        rows = list(self._recent) or [row]
        left = seconds_left(rows, self.config.iterations)
        kl = "-" if row.get("kl") is None else f"{row['kl']:.2e}"
        summary.add_row("time left", "-" if left is None else human_seconds(left), "KL", kl)
        if "eval_return_mean" in row:
            length = f"{row['eval_length_mean']:.1f}"
            summary.add_row("evaluated return", f"{row['eval_return_mean']:.1f}", "evaluated length", length)
        if "lag_mean" in row:
            lag = f"{row['lag_mean']:.1f} versions, {row['lag_max']:.0f} at most"
            summary.add_row("predictions/s", human_count(row["predictions_per_second"]), "lag", lag)
        outer = Table.grid()
        outer.add_row(summary)
        for device, values in row.get("devices", {}).items():
            outer.add_row(f"{device}  {usage_text(values)}")
        taken = CHROME_LINES + len(row.get("devices", {})) + ("lag_mean" in row) + ("eval_return_mean" in row)
        outer.add_row(gmi_table(row, self.layout, max(1, self.console.height - taken)))
        outer.add_row(Text(verdict(rows), style="dim", no_wrap=True, overflow="ellipsis"))
        return outer


def gmi_table(row: Row, layout: Layout, lines: int) -> Table:
    """Milliseconds per phase of each GMI; with more than `lines` GMIs, of each device and the slowest GMIs."""
    table = Table("", *(phase.label for phase in PHASES), box=None, padding=(0, 2), header_style="dim")
    gmis = {f"GMI {gmi_id}": phases for gmi_id, phases in row["gmis"].items()}
    shown = gmis if len(gmis) <= lines else _devices(gmis, layout) | _slowest(gmis, lines - len(layout.devices))
    for label, phases in list(shown.items())[:lines]:
        table.add_row(label, *(f"{phases[name] * 1000:.0f} ms" for name in PHASE_NAMES))
    return table


def _devices(gmis: dict[str, Phases], layout: Layout) -> dict[str, Phases]:
    """The phases of each device, as means over its GMIs."""
    means = {}
    for device in layout.devices:
        members = [gmis[f"GMI {gmi.id}"] for gmi in device.gmis if f"GMI {gmi.id}" in gmis]
        if members:
            label = f"{device.kind} {device.index}, {len(members)} GMIs"
            means[label] = {name: sum(phases[name] for phases in members) / len(members) for name in PHASE_NAMES}
    return means


def _slowest(gmis: dict[str, Phases], count: int) -> dict[str, Phases]:
    """The `count` slowest GMIs: those that wait least, as the others wait for them."""
    return dict(sorted(gmis.items(), key=lambda item: item[1][WAIT.name])[: max(0, count)])


def usage_text(values: Mapping[str, float]) -> str:
    """How busy a GPU was, in words; see `gmi.utilisation.Usage`."""
    return "  ".join(text.format(values[name]) for name, text in USAGE_TEXTS.items() if name in values)


def plain_line(row: Row, iterations: int) -> str:
    """One iteration as a line of text."""
    return (
        f"iteration {row['iteration']}/{iterations}  steps {human_count(row['env_steps'])}  "
        f"{human_count(row['steps_per_second'])} steps/s  return {_or_dash(row['return_mean'])}  "
        f"length {_or_dash(row['episode_length_mean'])}"
        + (f"  evaluated {row['eval_return_mean']:.1f}" if "eval_return_mean" in row else "")
        + (f"  lag {row['lag_mean']:.1f}" if "lag_mean" in row else "")
        + (f"  bad environments {row['bad_environments']:.0f}" if row["bad_environments"] else "")
    )


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
