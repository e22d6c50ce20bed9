"""The table of a training on a terminal: progress, numbers of the newest row, and the time of each GMI."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.console import ConsoleDimensions
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gmi_drl.cli.live_workers import worker_rows
from gmi_drl.config.run_config import RunConfig
from gmi_drl.layout.layout import Layout
from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import PHASE_NAMES, PHASES, WAIT
from gmi_drl.run.verdict import seconds_left, shares_of, verdict
from gmi_drl.units import human_count, human_seconds, human_value

Phases = Mapping[str, float]
Entry = tuple[str, str]
"""A name and its value, as they are shown."""

WIDE = 120
"""Columns from which the learner's other numbers and the shares of the phases are shown, too."""

HIGH = 20
"""Lines of a terminal from which each remark at the bottom may take two."""

BAR_WIDTH = 40
USAGE_TEXTS = {
    "sm_util": "{:.0f} % of SMs active",
    "sm_occupancy": "{:.0f} % occupancy",
    "dram_bandwidth": "{:.0f} % of DRAM bandwidth",
    "gpu_busy": "a kernel ran {:.0f} % of the time",
    "power_w": "{:.0f} W",
}


def live_table(
    row: Row,
    recent: Sequence[Row],
    layout: Layout,
    config: RunConfig,
    elapsed_s: float,
    size: ConsoleDimensions,
    note: str = "",
) -> Table:
    """All that the terminal shows.

    Args:
        row: The newest row, with the numbers of the newest evaluation.
        recent: The newest rows, oldest first: the time left and the verdict are of their means.
        layout: Of the run.
        config: Of the run.
        elapsed_s: Seconds since the first row.
        size: Of the terminal. With `WIDE` columns more is shown; rows of GMIs are left out where it is too low.
        note: A last line, such as who else uses the cores.
    """
    wide = size.width >= WIDE
    left = seconds_left(recent, config.iterations)
    if left is not None and config.time_limit_s:
        left = min(left, max(0.0, config.time_limit_s - elapsed_s))
    numbers = _summary(row, config, elapsed_s, wide)
    outer = Table.grid()
    outer.add_row(_progress(row["iteration"], config.iterations, left))
    outer.add_row(numbers)
    devices = row.get("devices", {})
    for device, values in devices.items():
        outer.add_row(f"{device}  {usage_text(values)}")
    remarks = [line for text in (verdict(recent), note) for line in _wrapped(text, size)]
    others = 1 + numbers.row_count + len(devices) + 2 + len(remarks)  # the bar above; a heading, the cursor below
    outer.add_row(gmi_table(row, layout, max(1, size.height - others), wide=wide))
    for line in remarks:
        outer.add_row(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))
    return outer


def _wrapped(text: str, size: ConsoleDimensions) -> list[str]:
    """The lines of a remark: two at most, in a low terminal one."""
    most = 2 if size.height >= HIGH else 1
    return textwrap.wrap(text, size.width, max_lines=most, placeholder="…", break_on_hyphens=False)


def _progress(iteration: int, iterations: int, left_s: float | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    left = "" if left_s is None or iteration >= iterations else f"{human_seconds(left_s)} left"
    bar = ProgressBar(total=iterations, completed=iteration, width=BAR_WIDTH)
    grid.add_row(bar, f"{iteration / iterations:.0%}", left)
    return grid


def _summary(row: Row, config: RunConfig, elapsed_s: float, wide: bool) -> Table:
    """The numbers, two in a line; in a wide terminal three, and the learner's others, too."""
    entries = [*_entries(row, config, elapsed_s), *(_learner_entries(row) if wide else ())]
    each = 3 if wide else 2
    grid = Table.grid(padding=(0, 2))
    for line in range(0, len(entries), each):
        grid.add_row(*(text for entry in entries[line : line + each] for text in entry))
    return grid


def _entries(row: Row, config: RunConfig, elapsed_s: float) -> Iterator[Entry]:
    limit = f" of {human_seconds(config.time_limit_s)}" if config.time_limit_s else ""
    yield "iteration", f"{row['iteration']} of {config.iterations}"
    yield "time", human_seconds(elapsed_s) + limit
    yield "env steps", human_count(row["env_steps"])
    yield "steps/s", human_count(row["steps_per_second"])
    yield "return", or_dash(row["return_mean"])
    yield "episode length", or_dash(row["episode_length_mean"])
    yield "learning rate", f"{row['learning_rate']:.1e}"
    yield "KL", or_dash(row.get("kl"), ".2e")
    yield "entropy", or_dash(row.get("entropy"), ".3g")
    yield "bad environments", f"{row['bad_environments']:.0f}"
    if "eval_return_mean" in row:
        yield "evaluated return", f"{row['eval_return_mean']:.1f}"
        yield "evaluated length", f"{row['eval_length_mean']:.1f}"
    if "lag_mean" in row:
        yield "predictions/s", human_count(row["predictions_per_second"])
        yield "lag", f"{row['lag_mean']:.1f} versions, {row['lag_max']:.0f} at most"
    if "version_age_s" in row:
        yield "trained frames/s", human_count(row["training_frames_per_second"])
        yield "versions' age", human_value(row["version_age_s"], "s")
    if "answer_p50_s" in row:
        yield "rows of a batch", f"{row['rows']:.1f}, p95 {row['rows_p95']:.0f}"
        yield "answers", f"{human_value(row['answer_p50_s'], 's')}, p99 {human_value(row['answer_p99_s'], 's')}"


def _learner_entries(row: Row) -> Iterator[Entry]:
    """The losses, and what the policy's noise is."""
    for name, value in row.items():
        if name.endswith("_loss"):
            yield name.replace("_", " "), or_dash(value, ".3g")
    if "action_std" in row:
        yield "action std", or_dash(row["action_std"], ".3g")
    if row.get("skipped_updates"):
        yield "skipped updates", f"{row['skipped_updates']:.0f}"


def gmi_table(row: Row, layout: Layout, lines: int, *, wide: bool = False) -> Table:
    """Milliseconds per phase of each GMI; with more than `lines` GMIs, of each device and the slowest GMIs.

    Where actors and trainers are on GMIs of their own there is a row for all actors, and one for each trainer.

    Args:
        row: The newest row.
        layout: Of the run.
        lines: Most rows of the table.
        wide: Whether the share of each phase is shown, too.
    """
    table = Table("", *(phase.label for phase in PHASES), box=None, padding=(0, 2), header_style="dim")
    names = _names(layout)
    gmis = {names.get(gmi_id, f"GMI {gmi_id}"): phases for gmi_id, phases in row["gmis"].items()}
    if workers := worker_rows(row, layout):
        shown = workers
    else:
        shown = gmis if len(gmis) <= lines else _devices(row, layout) | _slowest(gmis, lines - len(layout.devices))
    for label, phases in list(shown.items())[:lines]:
        shares = shares_of(phases)
        texts = {phase: f"{phases[phase.name] * 1000:.0f} ms" for phase in PHASES if phase.name in phases}
        parts = {phase: f" {shares.get(phase.label, 0):4.0%}" if wide else "" for phase in texts}
        table.add_row(label, *(texts[phase] + parts[phase] if phase in texts else "" for phase in PHASES))
    return table


def _names(layout: Layout) -> dict[str, str]:
    """The name of each GMI by its number, with its roles if GMIs have unlike ones."""
    is_alike = len({gmi.roles for gmi in layout.gmis}) == 1
    return {str(gmi.id): f"GMI {gmi.id}" + ("" if is_alike else f", {', '.join(gmi.roles)}") for gmi in layout.gmis}


def _devices(row: Row, layout: Layout) -> dict[str, Phases]:
    """The phases of each device, as means over its GMIs."""
    means: dict[str, Phases] = {}
    for device in layout.devices:
        members = [row["gmis"][str(gmi.id)] for gmi in device.gmis if str(gmi.id) in row["gmis"]]
        if members:
            label = f"{device.kind} {device.index}, {len(members)} GMIs"
            means[label] = {name: sum(phases[name] for phases in members) / len(members) for name in PHASE_NAMES}
    return means


def _slowest(gmis: Mapping[str, Phases], count: int) -> dict[str, Phases]:
    """The `count` slowest GMIs: those that wait least, as the others wait for them."""
    return dict(sorted(gmis.items(), key=lambda item: item[1][WAIT.name])[: max(0, count)])


def usage_text(values: Mapping[str, float]) -> str:
    """How busy a GPU was, in words; see `gmi.utilisation.Usage`."""
    return "  ".join(text.format(values[name]) for name, text in USAGE_TEXTS.items() if name in values)


def or_dash(value: float | None, form: str = ".1f") -> str:
    """The number in that format, or a dash where there was nothing to measure."""
    return "-" if value is None else f"{value:{form}}"
