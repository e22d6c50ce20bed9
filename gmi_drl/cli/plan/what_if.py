"""`gmi-drl plan --what-if`: compare machines by a profile of one workload."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.make_plan import node_of, profile_of, require_measurable
from gmi_drl.cli.options import named_backend
from gmi_drl.cli.output import console, print_json
from gmi_drl.cli.plan_options import PlanOptions, refuse
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.layout.backends import AUTO
from gmi_drl.units import human_count, human_money

if TYPE_CHECKING:
    from rich.table import Table

    from gmi_drl.hardware.node import Node
    from gmi_drl.scheduler.price import Prices
    from gmi_drl.scheduler.what_if import Case


def show_what_if(options: PlanOptions, files: Sequence[Path], prices: "Prices | None", format: str) -> None:
    """Print the comparison as a table, or as JSON.

    Raises:
        UsageError: if there is no profile, or options contradict each other.
        NoFeasiblePlanError: if no machine fits any point of the profile.
    """
    from gmi_drl.config.run_config import default_config
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.scheduler.what_if import MEASURED, compare

    machines = {"--node": options.node, "--gpus": options.gpus, "--cluster": options.cluster}
    refuse("--what-if names every machine that is compared", machines)
    refuse("--what-if compares steps/s", {"--objective": options.objective})
    if options.profile is None:
        raise UsageError("--what-if compares by a profile: add --profile FILE, which `gmi-drl profile` writes")
    if format not in ("table", "json"):
        raise UsageError(f"--format {format} exports a layout, and --what-if makes none: take table or json")
    if options.template.purpose != "training" or options.template.planner:
        known = "a profile measures training by GMIs that are alike"
        raise UsageError(f"--what-if --template {options.template.name}: {known}: leave --template out")
    require_measurable(options)
    profile = profile_of(options)
    spec = task_spec(options.task, options.played)
    learner = default_config(spec, options.algo or profile.learner).learner
    nodes = [node_of(file) for file in files]
    cases = compare(
        spec, learner, nodes, profile, prices=prices, keep_batch=options.keep_batch, template=options.template
    )
    if options.backend not in (None, AUTO.name):
        only = named_backend(options.backend)
        known = ", ".join(dict.fromkeys(case.backend for case in cases))
        cases = [case for case in cases if case.backend == only]
        if not cases:
            raise NoFeasiblePlanError(f"the profile has no point by {only}, it has {known}")
    if not any(case.best for case in cases):
        raise NoFeasiblePlanError("; ".join(f"{case.node.name}, {case.backend}: {case.known_by}" for case in cases))
    if format == "json":
        print_json("what-if", {"profile": str(options.profile), "cases": [_document(case) for case in cases]})
        return
    console().print(_table(cases, priced=prices is not None), markup=False)
    if any(case.best and case.known_by != MEASURED for case in cases):
        console().print(f"projected: assumes that each GMI runs as fast as on {profile.node}", markup=False)
    if profile.note:
        console().print(f"note of the profile: {profile.note}", markup=False)
    for line in _verdicts(cases):
        console().print(line, markup=False)


def _table(cases: "Sequence[Case]", *, priced: bool) -> "Table":
    from rich.table import Table

    table = Table(box=None, title="steps/s of all GMIs, each machine at its best", title_justify="left", pad_edge=False)
    for title in ("machine", "GPUs", "backend"):
        table.add_column(title, overflow="fold")
    for title in ("GMIs x environments", "steps/s", "x one GMI", *(["cost of 1G steps"] if priced else [])):
        table.add_column(title, justify="right", overflow="fold", min_width=6)
    table.add_column("known by", overflow="fold", min_width=9)
    fastest, cheapest = _fastest(cases), _cheapest(cases)
    for case in cases:
        best = case.best
        cells = ["-", "-", "-"]
        if best is not None:
            gain = "-" if case.gain is None else f"{case.gain:.2f}"
            shape = " / ".join(f"{point.gmis_per_gpu} x {point.num_env}" for point in best.points)
            shape += ", capped" if best.point.capped else ""
            cells = [shape, human_count(best.expected), gain]
        cost = "-" if case.cost is None else human_money(case.cost)
        style = "bold" if case in (fastest, cheapest) else None
        where = (case.node.name, _gpus(case.node), case.backend)
        table.add_row(*where, *cells, *([cost] if priced else []), case.known_by, style=style)
    return table


def _verdicts(cases: "Sequence[Case]") -> list[str]:
    """A line each on the fastest machine, and on the cheapest for a billion steps."""
    fastest, cheapest = _fastest(cases), _cheapest(cases)
    lines = []
    if fastest is not None and fastest.best is not None:
        lines.append(f"most steps/s: {_named(fastest)}, {human_count(fastest.best.expected)}")
    if cheapest is not None and cheapest.cost is not None:
        lines.append(f"least for a billion steps: {_named(cheapest)}, {human_money(cheapest.cost)}")
    return lines


def _fastest(cases: "Sequence[Case]") -> "Case | None":
    return max(cases, key=lambda case: case.best.expected if case.best else 0.0, default=None)


def _cheapest(cases: "Sequence[Case]") -> "Case | None":
    return min((case for case in cases if case.cost is not None), key=lambda case: case.cost or 0.0, default=None)


def _named(case: "Case") -> str:
    return f"{case.node.name} by {case.backend}"


def _gpus(node: "Node") -> str:
    return " + ".join(f"{part.count} x {part.model.removeprefix('NVIDIA ')}" for part in node.gpu_models) or "none"


def _document(case: "Case") -> dict[str, object]:
    point = None if case.best is None else case.best.point.model_dump(mode="json")
    by_model = case.best.by_model if case.best else ()
    return {
        "node": case.node.name,
        "gpus": [part.model_dump(mode="json") for part in case.node.gpu_models],
        "backend": case.backend,
        "point": point,
        "by_model": {model: one.model_dump(mode="json") for model, one in by_model} or None,
        "steps_per_second": None if case.best is None else case.best.expected,
        "gain_over_one_gmi": case.gain,
        "cost_per_billion_steps": case.cost,
        "known_by": case.known_by,
    }
