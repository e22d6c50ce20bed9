"""Tables of a plan's candidates and points, notes below them, and the layout as a tree."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gmi_drl.run.phases import PHASES
from gmi_drl.units import counted, human_bytes, human_count, human_gib, human_money, human_ranges

if TYPE_CHECKING:
    from rich.table import Table
    from rich.tree import Tree

    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.layout import Device, Layout
    from gmi_drl.scheduler import Candidate, Plan
    from gmi_drl.scheduler.profile import Profile, ProfilePoint

MANY_COLUMNS = 9
"""A table of this many columns or more has less space between them."""

NORMAL_95 = 1.96
"""Standard errors on either side of a mean within which it lies with 95 %."""

SHOWN_CANDIDATES = 8
SHOWN_INFEASIBLE = 4
SHOWN_DEVICES = 8
SHOWN_GMIS = 16


def candidate_table(plan: "Plan", hourly: float | None = None) -> "Table":
    """The best candidates: the speed of all GMIs together, and with a price per hour the cost.

    If some were run, what equation 2 or 3 expected stands beside, with its error. Without costs 80 columns are enough.
    """
    from gmi_drl.scheduler.price import cost_per_billion_steps
    from gmi_drl.templates import template_of

    learns = template_of(plan.layout).purpose == "training"
    ran = any(candidate.confirmed is not None for candidate in plan.candidates)
    several = len({candidate.cut.way for candidate in plan.candidates}) > 1
    titles = (
        *(["backend"] if several else []),
        "GMIs per device",
        "environments each",
        *(["samples per update"] if learns else []),
        "memory of a GMI",
        *(["expected", "ran together"] if ran else ["projected", *(["with communication"] if learns else [])]),
        *(["error"] if _has_errors(plan) else []),
        *(["useful"] if plan.knows_what_pays else []),
        *(["cost of 1G steps"] if hourly is not None else []),
    )
    rows = []
    for candidate in plan.candidates:
        cost = () if hourly is None else (human_money(cost_per_billion_steps(hourly, candidate.steps_per_second)),)
        backend = (candidate.cut.way,) if several else ()
        rows.append([*backend, *_cells(candidate, plan, learns, ran), *cost])
    return best_first(titles, rows)


def best_first(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """A table of steps/s whose first row is the choice. The caption says how many rows were left out."""
    from gmi_drl.cli.number_table import NumberTable

    padding = (0, 1) if len(titles) < MANY_COLUMNS else (0, 1, 0, 0)
    table = NumberTable(box=None, title="steps/s of all GMIs", title_justify="left", pad_edge=False, padding=padding)
    shown = rows[:SHOWN_CANDIDATES]
    for title, cells in zip(titles, zip(*shown, strict=True), strict=True):
        table.add_column(title, justify="right", overflow="fold", min_width=max(map(len, cells)))
    for place, row in enumerate(shown):
        table.add_row(*row, style="bold" if place == 0 else None)
    if len(rows) > len(shown):
        table.caption = f"and {len(rows) - len(shown)} more"
    return table


def point_table(profile: "Profile") -> "Table":
    """The points of a profile: speed, memory and phases of one GMI."""
    from rich.markup import escape

    from gmi_drl.cli.number_table import NumberTable

    table = NumberTable(box=None, title="one GMI", title_justify="left", pad_edge=False)
    phases = (f"{phase.label} ms" for phase in PHASES)
    several = len({point.cut.way for point in profile.points}) > 1
    for title in (*(["backend"] if several else []), "GMIs per device", "environments", "steps/s", "memory", *phases):
        table.add_column(title, justify="right", overflow="fold")
    for point in profile.points:
        place = (*([point.cut.way] if several else []), str(point.gmis_per_gpu), str(point.num_env))
        if not point.runnable:
            table.add_row(*place, "not runnable: " + escape(point.reason))
            continue
        times = point.phases.model_dump().values() if point.phases else ()
        memory = human_bytes(point.memory_bytes) if point.memory_bytes else "-"
        speed = human_count(point.steps_per_second) + interval(point)
        table.add_row(*place, speed, memory, *(f"{1000 * time:.0f}" for time in times))
    for column in table.columns:
        numbers = [str(cell) for cell in column.cells if not str(cell).startswith("not runnable")]
        column.min_width = max(map(len, numbers), default=0)
    return table


def interval(point: "ProfilePoint") -> str:
    """The 95 % interval of a point's speed, ` ± 2 %` of it, and whether other programs disturbed it."""
    within = f" ± {NORMAL_95 * point.relative_error:.0%}".replace("%", " %") if point.relative_error else ""
    return within + " disturbed" * bool(point.disturbance)


def notes(plan: "Plan", node: "Node") -> list[str]:
    """A line each on memory, by size in the table, on cores, on the meaning of the error, and on what could not run."""
    from gmi_drl.scheduler.memory import host_bytes_of

    chosen = plan.candidates[0]
    shown = {candidate.point.gmis_per_gpu for candidate in plan.candidates[:SHOWN_CANDIDATES]}
    lines = [
        f"memory of a GMI ({size} per device): {human_bytes(model.fixed_bytes)} + "
        f"{human_bytes(model.bytes_per_env)} x environments"
        for size, model in sorted(plan.memory.items())
        if size in shown
    ]
    host = host_bytes_of(chosen, node)
    of_host = f", {human_bytes(host)} of {human_gib(node.cpu.memory_gib)} host memory" if host else ""
    lines.append(f"{cores_taken(plan.layout, node)}{of_host}")
    if within := interval(chosen.point):
        lines.append(f"the speed of one GMI was measured within{within} (95 %), for the first row")
    if _has_errors(plan):
        lines.append(f"error: expected, by equation {3 if plan.learner else 2}, over ran together, less 1")
    lines += [f"not runnable: {point.cut.described}: {point.reason}" for point in plan.infeasible[:SHOWN_INFEASIBLE]]
    if len(plan.infeasible) > SHOWN_INFEASIBLE:
        lines.append(f"and {len(plan.infeasible) - SHOWN_INFEASIBLE} more that are not runnable (--format json)")
    return lines


def cores_taken(layout: "Layout", node: "Node") -> str:
    """How many of a node's cores a layout takes, or of the cores of all nodes."""
    cores = {(device.node, core) for device in layout.devices for gmi in device.gmis for core in gmi.cores}
    return f"the layout takes {len(cores)} of {node.cpu.cores} cores"


def cost_note(plan: "Plan", node: "Node", hourly: float) -> str:
    """A line on what a billion steps cost, with GMIs and with one GMI per device."""
    from gmi_drl.scheduler.price import cost_per_billion_steps

    best, solo = plan.candidates[0], plan.best_solo
    line = cost_line(best.steps_per_second, node, hourly)
    if solo is None:
        return f"{line}; with one GMI per device nothing was measured"
    if solo is best:
        return f"{line}: one GMI per device is best"
    alone = human_money(cost_per_billion_steps(hourly, solo.steps_per_second))
    return f"{line}; {alone} with one GMI per device, at its best"


def cost_line(steps_per_second: float, node: "Node", hourly: float) -> str:
    """A line on what a billion steps cost at a speed."""
    from gmi_drl.scheduler.price import cost_per_billion_steps

    cost = human_money(cost_per_billion_steps(hourly, steps_per_second))
    return f"a billion steps cost {cost}, at {human_money(hourly)} an hour for {counted(node.num_gpus, 'GPU')}"


def layout_tree(layout: "Layout") -> "Tree":
    """Devices and their GMIs as a tree, with the reasons. Many GMIs are summed up in a line per device."""
    from rich.markup import escape
    from rich.tree import Tree

    title = f"{layout.task}: {counted(len(layout.gmis), 'GMI')}, {layout.num_env} environments"
    tree = Tree(f"[bold]{escape(title)}[/bold]")
    for device in layout.devices[:SHOWN_DEVICES]:
        where = escape(f"{device.node}: ") if device.node else ""
        branch = tree.add(f"{where}{device.kind} {device.index}  [dim]{layout.backend}, {layout.template}[/dim]")
        if len(layout.gmis) > SHOWN_GMIS:
            branch.label = f"{branch.label}  {_summary(device)}"
            continue
        for gmi in device.gmis:
            what = f"{gmi.num_env} environments" if gmi.num_env else " and ".join(gmi.roles)
            branch.add(f"GMI {gmi.id}: {what} on {_cores(gmi.cores)}")
    if len(layout.devices) > SHOWN_DEVICES:
        tree.add(f"and {len(layout.devices) - SHOWN_DEVICES} more devices")
    reasons = tree.add("why")
    for reason in layout.reasons:
        reasons.add(escape(reason))
    return tree


def _cells(candidate: "Candidate", plan: "Plan", learns: bool, ran: bool) -> list[str]:
    together = "" if candidate.confirmed is None else human_count(candidate.confirmed)
    return [
        _of_each(candidate, "gmis_per_gpu"),
        _of_each(candidate, "num_env"),
        *([human_count(plan.samples_per_update(candidate))] if learns else []),
        human_bytes(candidate.memory_bytes) if candidate.memory_bytes else "-",
        *([] if ran else [human_count(candidate.projected)]),
        *([human_count(candidate.expected)] if ran or learns else []),
        *([together] if ran else []),
        *(["" if candidate.error is None else f"{candidate.error:+.1%}"] if _has_errors(plan) else []),
        *([human_count(candidate.useful_steps_per_second or 0.0)] if plan.knows_what_pays else []),
    ]


def _has_errors(plan: "Plan") -> bool:
    """Whether the error of equation 2 or 3 is known for some candidate."""
    return any(candidate.error is not None for candidate in plan.candidates)


def _of_each(candidate: "Candidate", name: str) -> str:
    """A number of the candidate's cut; on GPUs of several models one for each."""
    return " / ".join(str(getattr(point, name)) for point in candidate.points)


def _summary(device: "Device") -> str:
    """The GMIs of a device in one line."""
    ids = human_ranges([gmi.id for gmi in device.gmis])
    cores = _cores([core for gmi in device.gmis for core in gmi.cores])
    num_env = sum(gmi.num_env for gmi in device.gmis)
    return f"GMI{'s' * (len(device.gmis) > 1)} {ids}: {num_env} environments on {cores}"


def _cores(cores: Sequence[int]) -> str:
    return f"core{'s' * (len(cores) > 1)} {human_ranges(cores)}"
