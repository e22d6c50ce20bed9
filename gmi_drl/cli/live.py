"""The progress of a training: a table redrawn in place on a terminal, elsewhere a line every ten seconds."""

import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

import rich_click as click
from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from gmi_drl.cli.live_table import live_table, or_dash
from gmi_drl.config.run_config import RunConfig
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.gmi.inventory.core_load import CoreLoad
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.verdict import RECENT
from gmi_drl.units import counted, human_count

LEAST_WIDTH, LEAST_HEIGHT = 80, 12
PLAIN_EVERY_S = 10.0
REFRESH_S = 0.25
LOOK_S = 10.0
"""Seconds between two looks at what else uses the cores, which take some milliseconds."""

MUCH_BY_OTHERS = 0.1
"""The share of the cores from which other programs are named."""

EVALUATED = ("eval_return_mean", "eval_length_mean")
"""Entries of a row of an iteration with an evaluation; the view shows them until the next one."""


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
        self._others = _Others()
        self._size, self._announced = self.console.size, ""
        self.started = self.shown = 0.0  # set by the first row, as starting up is no training

    def announce(self) -> None:
        """Print that the training has begun; it may have been refused before."""
        gmis = counted(len(self.layout.gmis), "GMI")
        where = f"{self.layout.num_env} environments in {self.folder.path}"
        self._wait_for("the first iteration")
        self._announced = f"Training {self.layout.task} on {gmis} with {where}{self._sizes()}"
        self._print(self._announced)

    def _sizes(self) -> str:
        """The sizes that grow with the number of GMIs; empty for one GMI."""
        each = {gmi.num_env for gmi in self.layout.with_role("simulator")}
        if len(self.layout.gmis) == 1 or len(each) > 1:
            return ""
        steps = self.config.learner.steps_of(self.layout)
        return f" ({each.pop()} per GMI; the GMIs together learn from {steps} steps per iteration)"

    def __enter__(self) -> Self:
        if self.live:
            with suppress(OSError):
                self.live.start()
        self._wait_for(f"{counted(len(self.layout.gmis), 'GMI')} to start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            with suppress(OSError):
                self.live.stop()

    def _wait_for(self, what: str) -> None:
        if self.live:
            with suppress(OSError):
                self.live.update(Text(f"waiting for {what}…", style="dim"), refresh=True)

    def _print(self, text: str) -> None:
        """Print a line above what is redrawn. A terminal that is gone is no error."""
        with suppress(OSError):
            self.console.print(text, markup=False, soft_wrap=True)

    def show(self, row: Row) -> None:
        """Show one row of metrics. A terminal that is gone does not stop the training."""
        try:
            self._show(row)
        except OSError:
            self.is_lost = True

    def warn(self, text: str) -> None:
        """Print a warning, which does not end the training."""
        self._print(f"Warning: {text}")

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
            rows, elapsed, size = list(self._recent), now - self.started, self._current_size()
            shown = live_table(row, rows, self.layout, self.config, elapsed, size, self._others.line())
            self.live.update(shown, refresh=True)
        else:
            click.echo(plain_line(row, self.config.iterations), err=True)

    def _current_size(self) -> ConsoleDimensions:
        """The size of the terminal. Clears a resized one, which has wrapped or cut the lines that were drawn."""
        if (size := self.console.size) != self._size:
            self._size = size
            self.console.clear()
            self._print(self._announced)
        return size


class _Others:
    """Other programs on the cores of this machine."""

    def __init__(self) -> None:
        self._load: CoreLoad | None = None
        self._next_s, self._line = 0.0, ""

    def line(self) -> str:
        """Who took how much of the last `LOOK_S`; empty if it is little, or the first time."""
        if time.monotonic() >= self._next_s:
            if self._load is not None and (share := self._load.others()) > MUCH_BY_OTHERS:
                named = f": {takers}" if (takers := self._load.takers()) else ""
                self._line = f"other programs take {share:.0%} of this machine's cores{named}"
            else:
                self._line = ""
            self._load, self._next_s = CoreLoad(allowed_cores()), time.monotonic() + LOOK_S
        return self._line


def plain_line(row: Row, iterations: int) -> str:
    """One iteration as a line of text."""
    return (
        f"iteration {row['iteration']}/{iterations}  steps {human_count(row['env_steps'])}  "
        f"{human_count(row['steps_per_second'])} steps/s  return {or_dash(row['return_mean'])}  "
        f"length {or_dash(row['episode_length_mean'])}"
        + (f"  evaluated {row['eval_return_mean']:.1f}" if "eval_return_mean" in row else "")
        + (f"  lag {row['lag_mean']:.1f}" if "lag_mean" in row else "")
        + (f"  bad environments {row['bad_environments']:.0f}" if row["bad_environments"] else "")
    )
