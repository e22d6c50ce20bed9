"""`gmi-drl plan`."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.layouts import wants_applied
from gmi_drl.cli.make_plan import CPU_BUDGET_S, GPU_BUDGET_S, Asked, made, node_for, refuse
from gmi_drl.cli.output import (
    backend_option,
    console,
    env_arg_option,
    named_backend,
    print_json,
    require_folder,
    say,
    simulator_option,
    use_simulator,
    write_file,
)
from gmi_drl.cli.plan.document import plan_document
from gmi_drl.cli.plan.formulas import explained_lines
from gmi_drl.cli.plan.split_tables import division_notes, division_table
from gmi_drl.cli.plan.tables import candidate_table, cost_note, layout_tree, notes
from gmi_drl.cli.plan.what_if import show_what_if
from gmi_drl.config.task_names import known_tasks, with_arguments
from gmi_drl.layout.backends import AUTO, PROCESS
from gmi_drl.layout.export import FORMATS, export, require_sayable
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.cut_gpus import Known
    from gmi_drl.scheduler import Plan

LAYOUT = Path("layout.yaml")


@click.command()
@click.option("--task", metavar="NAME", default="ant", help=f"What is trained: {known_tasks()}.")
@env_arg_option
@click.option(
    "--template",
    metavar="NAME",
    default="training",
    help="What GMIs do: training, serving (a policy that has been learnt), or a template's name.",
)
@click.option(
    "--algo",
    metavar="NAME",
    help="What learns: ppo (ours), a3c, rsl_rl, or a package's.  [default: the --profile's, or ppo]",
)
@click.option("--num-env", type=click.IntRange(1, MOST_ENVIRONMENTS), help="Look at this number only, of each GMI.")
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Use so many GPUs, those that are linked best.  [default: all]",
)
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="Look at this number of GMIs per device only.")
@backend_option(f"with a --profile all of it, on GPUs {AUTO.name}: what is measured best, on cores {PROCESS.name}")
@click.option(
    "--share-cores",
    is_flag=True,
    help="Let GMIs take turns on cores where there are not enough, to try a layout (with --budget 0 or --node).",
)
@click.option(
    "--keep-batch",
    type=click.IntRange(min=1),
    metavar="SAMPLES",
    help="Samples per update (all environments x learner.horizon) that the layout must have.",
)
@click.option(
    "--objective",
    type=click.Choice(["steps", "learning"]),
    help="Most steps/s, or most of what steps teach: many environments are fast and learn little from each."
    "  [default: learning where it can be told, else steps]",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="For measuring, beside what kernels take to compile; 0 cuts evenly, unmeasured."
    f"  [default: {CPU_BUDGET_S}, with a GPU {GPU_BUDGET_S}]",
)
@click.option("--fresh", is_flag=True, help="Measure anew what was measured before.")
@click.option("--profile", type=click.Path(path_type=Path), help="Measure nothing, choose by this profile file.")
@click.option("--node", type=click.Path(path_type=Path), help="Plan for the machine in this node file.")
@click.option(
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE|ray",
    help="Plan for the nodes in this cluster file, or of the Ray cluster, by a --profile or evenly; decoupled with"
    " a --budget by what is measured on this machine, if it is like all nodes.",
)
@click.option(
    "--what-if",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="NODE",
    help="Compare the machines in these node files (give it for each) by the --profile; plans nothing.",
)
@click.option(
    "--price-per-gpu-hour",
    "prices",
    multiple=True,
    metavar="[MODEL=]PRICE",
    help="Tell what a billion steps cost; for several models of GPU more than once (H100=2.5).",
)
@click.option("--explain", is_flag=True, help="Show every formula of the plan with its numbers.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The layout file.  [default: {LAYOUT}]",
)
@simulator_option
@click.option(
    "--format",
    type=click.Choice(["table", "json", *FORMATS]),
    default="table",
    help="For people, for programs, or what another tool takes; on stdout, alone.",
)
def plan(
    task: str,
    env_arg: tuple[str, ...],
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
    **options: Any,
) -> None:
    """Find out which GMIs a training (or serving) should get, and write them to a layout file.

    On this machine by measuring: it tries how one GMI runs for several numbers of GMIs and ever more environments,
    until more no longer pay (two times running, where Algorithm 2 of the paper stops at once), then runs the best
    layouts, each by turns with one GMI that has the whole device. What was measured is remembered. For a machine that
    is elsewhere (--node) by a --profile measured there: the best of its points that fits.
    """
    from gmi_drl.files import dump_yaml
    from gmi_drl.scheduler.price import price_per_hour, prices_of
    from gmi_drl.templates import template_named

    priced = prices_of(prices)
    use_simulator(simulator_python, task)
    asked = Asked(
        task=with_arguments(task, env_arg),
        template=template_named(template),
        backend=backend,
        node=node,
        cluster=cluster,
        **options,
    )
    if format in FORMATS:
        told = {"--explain": explain or None, "--price-per-gpu-hour": prices or None, "--what-if": what_if or None}
        refuse(f"--format {format} is one layout for another tool", {**told, "--cluster": cluster})
    if what_if:
        refuse("--what-if compares and plans nothing", {"--output": output, "--explain": explain or None})
        show_what_if(asked, what_if, priced, format)
        return
    output = output or LAYOUT
    require_folder(output)
    verb = "Replaced" if output.is_file() else "Wrote"
    if not asked.goes_by_points:
        refuse("nothing is measured, so no cost is known", {"--price-per-gpu-hour": prices or None})
        refuse("nothing is measured, so there is no formula to explain", {"--explain": explain or None})
    if asked.template.planner:
        refuse(f"formulas are of GMIs that are alike, those of {template} are not", {"--explain": explain or None})
    with _no_garbage(), _leave_told(output):
        here = node_for(asked)
        if format in FORMATS:
            decided = None if asked.goes_by_points and backend in (None, AUTO.name) else named_backend(backend)
            require_sayable(format, decided, on_gpus=here.num_gpus > 0)
        hourly = price_per_hour(here, priced) if priced else None
        chosen = made(asked, here)
        write_file(output, dump_yaml(chosen.layout))
    apply_mig = wants_applied(chosen.layout, here=node is None and cluster is None)
    if format == "json":
        print_json("plan", {"layout_file": str(output), **plan_document(chosen, hourly, explain)})
        return
    if format in FORMATS:
        say(f"{verb} {output}")  # also where the format cannot say the layout: it was paid for
        click.echo(export(format, chosen.layout, here, [] if node else _gpus_here(here)), nl=False)
        return
    _show(chosen, here, hourly, explain)
    where = f", on the machine of {node}" if node else ""
    over_nodes = chosen.layout.nodes != (None,)
    if cluster and not over_nodes and chosen.layout.made_for:
        where = f", on {chosen.layout.made_for.name}"
    other = chosen.learner not in (None, asked.template.usual_learner)
    train = f"train {output}" + (f" --algo {chosen.learner}" if other else "")
    command = train if asked.template.purpose == "training" else f"serve RUN {output} --steps 1000"
    command += " --launcher ray" if over_nodes else ""
    command += " --apply-mig" if apply_mig else ""
    console().print(f"{verb} {output}. Next{where}: gmi-drl {command}", markup=False, soft_wrap=True)


@contextmanager
def _leave_told(output: Path) -> Iterator[None]:
    """Say what Ctrl-C leaves."""
    try:
        yield
    except SystemExit:
        say(f"gmi-drl: stopped before {output} was written; what has been measured is remembered")
        raise


def _gpus_here(node: "Node") -> list["Known"]:
    """What this machine calls those GPUs that a plan for it may use."""
    from gmi_drl.gmi.inventory import visible_gpus
    from gmi_drl.layout.cut_gpus import Known

    return [Known(gpu.uuid, gpu.number) for gpu in visible_gpus()] if node.num_gpus else []


@contextmanager
def _no_garbage() -> Iterator[None]:
    """A plan of 80,000 GMIs makes a million objects and no cycles; looking for cycles costs a third of its time."""
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
