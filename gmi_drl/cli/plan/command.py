"""`gmi-drl plan`."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.layouts import needs_apply_mig
from gmi_drl.cli.make_plan import CPU_BUDGET_S, GPU_BUDGET_S, make_plan, node_of, planned_node
from gmi_drl.cli.options import (
    FiniteRange,
    algo_option,
    backend_option,
    env_arg_option,
    named_backend,
    simulator_option,
    task_set_option,
    use_simulator,
)
from gmi_drl.cli.output import console, print_json, require_folder, say, write_file
from gmi_drl.cli.plan.document import plan_document
from gmi_drl.cli.plan.formulas import explained_lines
from gmi_drl.cli.plan.split_tables import division_notes, division_table
from gmi_drl.cli.plan.tables import candidate_table, cost_note, layout_tree, notes
from gmi_drl.cli.plan.what_if import show_what_if
from gmi_drl.cli.plan_options import PlanOptions, refuse
from gmi_drl.config.task_names import known_tasks, with_arguments
from gmi_drl.layout.backends import AUTO, PROCESS
from gmi_drl.layout.export import FORMATS, export, require_over_nodes, require_sayable
from gmi_drl.units import quoted
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.cut_gpus import Known
    from gmi_drl.scheduler import Plan

LAYOUT = Path("layout.yaml")


@click.command()
@click.option("--task", metavar="NAME", default="ant", help=f"The task to plan for: {known_tasks()}.")
@env_arg_option
@task_set_option
@click.option(
    "--template",
    metavar="NAME",
    default="training",
    help="What the GMIs do: training, serving (a trained policy), or the name of a template.",
)
@algo_option("the --profile's, or ppo")
@click.option(
    "--num-env", type=click.IntRange(1, MOST_ENVIRONMENTS), help="Try only this number of environments per GMI."
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use N GPUs, those with the best links.  [default: all]",
)
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="Try only this number of GMIs per device.")
@backend_option(f"all in the --profile; else on GPUs {AUTO.name}, the fastest measured, on cores {PROCESS.name}")
@click.option(
    "--share-cores",
    is_flag=True,
    help="Let GMIs share cores if there are too few, to try out a layout (with --budget 0 or --node).",
)
@click.option(
    "--keep-batch",
    type=click.IntRange(min=1),
    metavar="SAMPLES",
    help="Plan only layouts with this many samples per update (all environments x learner.horizon).",
)
@click.option(
    "--objective",
    type=click.Choice(["steps", "learning"]),
    help="Maximise steps/s, or learning per second: with many environments steps are fast but each teaches less."
    "  [default: learning if the gradient noise scale is known, else steps]",
)
@click.option(
    "--budget",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    help="Time for measuring, without the compiling of kernels. 0 cuts evenly without measuring."
    f"  [default: {CPU_BUDGET_S}, with a GPU {GPU_BUDGET_S}]",
)
@click.option("--fresh", is_flag=True, help="Measure again what was measured before.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Choose by the measurements in this profile file, and measure nothing. With the template workers repeatable:"
    " one of each kind of machine.",
)
@click.option("--node", type=click.Path(path_type=Path), help="Plan for the machine in this node file.")
@click.option(
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE|ray",
    help="Plan for the nodes in this cluster file, or of the Ray cluster, by a --profile or evenly. With the template"
    " decoupled and a --budget this machine is measured, if all nodes are like it.",
)
@click.option(
    "--what-if",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="NODE",
    help="Compare the machine in this node file with others by the --profile, and plan nothing. Repeatable.",
)
@click.option(
    "--price-per-gpu-hour",
    "prices",
    multiple=True,
    metavar="[MODEL=]PRICE",
    help="Show what a billion steps cost. Repeatable for several models of GPU (H100=2.5).",
)
@click.option("--explain", is_flag=True, help="Show each formula of the plan with its numbers.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The layout file to write.  [default: {LAYOUT}]",
)
@simulator_option
@click.option(
    "--format",
    type=click.Choice(["table", "json", *FORMATS]),
    default="table",
    help="For people, for programs, or input for another tool; nothing else is on stdout.",
)
def plan(
    task: str,
    env_arg: tuple[str, ...],
    set: tuple[str, ...],
    template: str,
    backend: str | None,
    node: Path | None,
    cluster: Path | None,
    what_if: tuple[Path, ...],
    prices: tuple[str, ...],
    explain: bool,
    output: Path | None,
    simulator_python: str | None,
    format: str,
    **others: Any,
) -> None:
    """Choose the GMIs for a training (or serving) and write them to a layout file.

    On this machine by measuring. For several numbers of GMIs it runs one of them with more and more environments, until
    two increases in a row do not pay (Algorithm 2 of the paper stops at the first). Then it runs the best layouts, each
    in turn with one GMI that has the whole device. Measurements are remembered. For another machine (--node) it takes
    the best point that fits of a --profile measured there.
    """
    from gmi_drl.files import dump_yaml
    from gmi_drl.scheduler.price import price_per_hour, prices_of
    from gmi_drl.templates import template_named

    priced = prices_of(prices)
    use_simulator(simulator_python, task)
    options = PlanOptions(
        task=with_arguments(task, env_arg),
        settings=set,
        template=template_named(template),
        backend=backend,
        node=node,
        cluster=cluster,
        **others,
    )
    options.played  # noqa: B018  refused before anything is measured
    shown = {"--explain": explain or None, "--price-per-gpu-hour": prices or None}
    if format in FORMATS:
        refuse(f"--format {format} is one layout for another tool", {**shown, "--what-if": what_if or None})
        if cluster:
            require_over_nodes(format)
    if what_if:
        refuse("--what-if compares and plans nothing", {"--output": output, "--explain": explain or None})
        show_what_if(options, what_if, priced, format)
        return
    output = output or LAYOUT
    require_folder(output)
    verb = "Replaced" if output.is_file() else "Wrote"
    _refuse_unknown(options, **shown)
    with _without_gc(), _say_if_stopped(output, keeps=not options.template.profile_planner):
        here = planned_node(options)
        if format in FORMATS and not cluster:
            decided = None if options.uses_measurements and backend in (None, AUTO.name) else named_backend(backend)
            require_sayable(format, decided, on_gpus=here.num_gpus > 0)
        if priced:
            price_per_hour(here, priced)  # unknown prices are refused before anything is measured
        chosen = make_plan(options, here)
        here = _chosen_node(chosen, options, here)
        hourly = price_per_hour(here, priced) if priced else None
        write_file(output, dump_yaml(chosen.layout))
    apply_mig = needs_apply_mig(chosen.layout, here=node is None and cluster is None)
    if format == "json":
        print_json("plan", {"layout_file": str(output), **plan_document(chosen, hourly, explain)})
        return
    if format in FORMATS:
        say(f"{verb} {output}")  # said first: exporting may fail, and the layout was paid for by measuring
        click.echo(export(format, chosen.layout, here, [] if node or cluster else _gpus_here(here)), nl=False)
        return
    _show(chosen, here, hourly, explain)
    command = f"{verb} {output}. Next{_where(chosen, options)}: gmi-drl {_next_command(chosen, options, output)}"
    console().print(command + " --apply-mig" * apply_mig, markup=False, soft_wrap=True)


def _refuse_unknown(options: PlanOptions, **shown: object) -> None:
    """Refuse to show costs and formulas (options by name) of a plan that has none."""
    price, formulas = ({name: shown[name]} for name in ("--price-per-gpu-hour", "--explain"))
    if not options.uses_measurements:
        refuse("nothing is measured, so no cost is known", price)
        refuse("nothing is measured, so there is no formula to explain", formulas)
    if options.template.profile_planner and options.profiles:
        refuse("prices are of plans by points of GMIs", price)
    if options.template.planner:
        refuse(f"its formulas are for equal GMIs, and those of {options.template.name} differ", formulas)


def _where(plan: "Plan", options: PlanOptions) -> str:
    """The machine on which the layout is to be run, if it is not this one."""
    if options.node:
        return f", on the machine of {options.node}"
    if options.cluster and plan.layout.nodes == (None,) and plan.layout.made_for:
        return f", on {plan.layout.made_for.name}"
    return ""


def _chosen_node(plan: "Plan", options: PlanOptions, planned: "Node") -> "Node":
    """The machines that a plan takes: of a cluster all that were planned for, or one that is best."""
    if plan.basis:
        return plan.basis.node
    return node_of(None) if options.measures_for_cluster and plan.layout.nodes == (None,) else planned


def _next_command(plan: "Plan", options: PlanOptions, output: Path) -> str:
    """The arguments of `gmi-drl` that run the layout."""
    by_ray = " --launcher ray" if plan.layout.nodes != (None,) else ""
    if options.template.purpose != "training":
        return f"serve RUN {quoted(output)} --steps 1000{by_ray}"
    is_usual = plan.learner in (None, options.template.usual_learner)
    played = "".join(f" --set task.{name}={str(value).lower()}" for name, value in options.played.given().items())
    return f"train {quoted(output)}{'' if is_usual else f' --algo {plan.learner}'}{played}{by_ray}"


@contextmanager
def _say_if_stopped(output: Path, *, keeps: bool) -> Iterator[None]:
    """Print that a signal has ended the `with` block, and whether what was measured is kept."""
    try:
        yield
    except SystemExit:
        again = "; the same command goes on with what has been measured" if keeps else ""
        say(f"gmi-drl: stopped before {output} was written{again}")
        raise


def _gpus_here(node: "Node") -> list["Known"]:
    """UUID and index of the GPUs of this machine that a plan may use."""
    from gmi_drl.gmi.inventory import visible_gpus
    from gmi_drl.layout.cut_gpus import Known

    return [Known(gpu.uuid, gpu.number) for gpu in visible_gpus()] if node.num_gpus else []


@contextmanager
def _without_gc() -> Iterator[None]:
    """Switch off garbage collection: in the million objects of a plan of 80,000 GMIs it takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _show(plan: "Plan", node: "Node", hourly: float | None, explain: bool) -> None:
    if plan.candidates:
        console().print(candidate_table(plan, hourly))
        for note in [*notes(plan, node), *([] if hourly is None else [cost_note(plan, node, hourly)])]:
            console().print(note, markup=False)
    if plan.divisions:
        console().print(division_table(plan, hourly))
        for note in division_notes(plan, node, hourly):
            console().print(note, markup=False)
    if explain:
        from gmi_drl.scheduler.explain.explain import explain as explained

        console().print("\n".join(explained_lines(explained(plan, hourly))), markup=False, soft_wrap=True)
    console().print(layout_tree(plan.layout))
