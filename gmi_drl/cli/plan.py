"""`gmi-drl plan`."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from gmi_drl.backends import PROCESS
from gmi_drl.cli.explain_view import explained_lines
from gmi_drl.cli.output import (
    backend_option,
    console,
    named_backend,
    print_json,
    require_folder,
    say,
    simulator_option,
    write_file,
)
from gmi_drl.cli.plan_view import candidate_table, cost_note, layout_tree, notes
from gmi_drl.cli.plans import CPU_BUDGET_S, GPU_BUDGET_S, even_plan, measured_plan, node_of, plan_from_profile
from gmi_drl.errors import UsageError
from gmi_drl.exports import FORMATS, export, require_sayable
from gmi_drl.task_names import known_tasks
from gmi_drl.workload import MOST_ENVIRONMENTS

if TYPE_CHECKING:
    from gmi_drl.hardware import Node
    from gmi_drl.scheduler import Plan


@click.command()
@click.option("--task", metavar="NAME", default="ant", help=f"What is trained: {known_tasks()}.")
@click.option(
    "--template",
    metavar="NAME",
    default="training",
    help="What GMIs do: training, serving (a policy that has been learnt), or a template's name.",
)
@click.option(
    "--algo",
    metavar="NAME",
    help="What learns: ppo (ours), rsl_rl, or a package's.  [default: the --profile's, or ppo]",
)
@click.option("--num-env", type=click.IntRange(1, MOST_ENVIRONMENTS), help="Look at this number only, of each GMI.")
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="Look at this number of GMIs per device only.")
@backend_option(f"the --profile's, or {PROCESS.name}")
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
    default=Path("layout.yaml"),
    help="The layout file.",
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
    template: str,
    algo: str | None,
    num_env: int | None,
    gmis_per_gpu: int | None,
    backend: str | None,
    share_cores: bool,
    keep_batch: int | None,
    budget: float | None,
    fresh: bool,
    profile: Path | None,
    node: Path | None,
    prices: tuple[str, ...],
    explain: bool,
    output: Path,
    format: str,
) -> None:
    """Find out which GMIs a training (or serving) should get, and write them to a layout file.

    On this machine by measuring: it tries how one GMI runs for several numbers of GMIs and ever more environments,
    until more no longer pay (two times running, where Algorithm 2 of the paper stops at once), then runs the best
    layouts, each by turns with one GMI that has the whole device. What was measured is remembered. For a machine that
    is elsewhere (--node) by a --profile measured there: the best of its points that fits.
    """
    from gmi_drl.files import dump_yaml
    from gmi_drl.learners import OUR_PPO
    from gmi_drl.profile import load_profile
    from gmi_drl.scheduler.price import price_per_hour, prices_of
    from gmi_drl.templates import template_named

    require_folder(output)
    priced = prices_of(prices)
    by = template_named(template)
    if by.purpose != "training":
        _refuse("nothing is learnt", {"--algo": algo, "--keep-batch": keep_batch})
        _refuse(f"the points of a profile are of trainings, not of {by.purpose}", {"--profile": profile})
    verb = "Replaced" if output.is_file() else "Wrote"
    with _no_garbage():
        here = node_of(node)
        if format in FORMATS:
            _refuse(
                f"--format {format} is for another tool",
                {"--explain": explain or None, "--price-per-gpu-hour": priced or None},
            )
            require_sayable(format, None if profile else named_backend(backend), on_gpus=here.num_gpus > 0)
        hourly = price_per_hour(here, priced) if priced else None
        if profile is not None:
            _refuse("--profile measures nothing", {"--budget": budget, "--fresh": fresh or None})
            restricted = {"--num-env": num_env, "--gmis-per-gpu": gmis_per_gpu, "--backend": backend}
            _refuse("the --profile decides that", restricted)
            _refuse("what was measured had cores of its own", {"--share-cores": share_cores or None})
            points = load_profile(profile)
            algo = algo or points.learner
            chosen = plan_from_profile(task, here, by, algo, points, keep_batch)
        elif node is not None or budget == 0:
            _refuse("nothing is measured, so nothing can be held", {"--keep-batch": keep_batch})
            _refuse("nothing is measured, and an even cut is the same for all", {"--algo": algo})
            _refuse("nothing is measured, so no cost is known", {"--price-per-gpu-hour": prices or None})
            _refuse("nothing is measured, so there is no formula to explain", {"--explain": explain or None})
            elsewhere = {} if node is None else {"--budget": budget, "--fresh": fresh or None}
            _refuse(f"the machine of {node} cannot be measured here", elsewhere)
            chosen = even_plan(task, here, by, num_env, gmis_per_gpu, named_backend(backend), share_cores)
        else:
            _refuse("speeds of GMIs that take turns say nothing (--budget 0)", {"--share-cores": share_cores or None})
            algo = algo or OUR_PPO.name
            cutting = named_backend(backend)
            chosen = measured_plan(task, here, by, algo, num_env, gmis_per_gpu, cutting, keep_batch, budget, fresh)
        write_file(output, dump_yaml(chosen.layout))
    if format == "json":
        print_json("plan", {"layout_file": str(output), **_document(chosen, hourly, explain)})
        return
    if format in FORMATS:
        say(f"{verb} {output}")  # also where the format cannot say the layout: it was paid for
        click.echo(export(format, chosen.layout, here), nl=False)
        return
    _show(chosen, here, hourly, explain)
    where = f", on the machine of {node}" if node else ""
    train = f"train {output}" + (f" --algo {algo}" if algo not in (None, OUR_PPO.name) else "")
    command = train if by.purpose == "training" else f"serve RUN {output} --steps 1000"
    console().print(f"{verb} {output}. Next{where}: gmi-drl {command}", markup=False, soft_wrap=True)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """A plan of 80,000 GMIs makes a million objects and no cycles; looking for cycles costs a third of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Options that contradict another one."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: {why}: leave it out")


def _show(plan: "Plan", node: "Node", hourly: float | None, explain: bool) -> None:
    if plan.candidates:
        console().print(candidate_table(plan, hourly))
        for note in [*notes(plan, node), *([] if hourly is None else [cost_note(plan, node, hourly)])]:
            console().print(note, markup=False)
    if explain:
        from gmi_drl.scheduler.explain import explain as explained

        console().print("\n".join(explained_lines(explained(plan, hourly))), markup=False, soft_wrap=True)
    console().print(layout_tree(plan.layout))


def _document(plan: "Plan", hourly: float | None, explain: bool) -> dict[str, object]:
    from dataclasses import asdict

    from gmi_drl.scheduler.explain import explain as explained
    from gmi_drl.scheduler.price import cost_per_billion_steps

    candidates = [
        {**candidate.point.model_dump(mode="json"), "projected": candidate.projected, "expected": candidate.expected}
        | {"confirmed": candidate.confirmed}
        | (
            {}
            if hourly is None
            else {"cost_per_billion_steps": cost_per_billion_steps(hourly, candidate.steps_per_second)}
        )
        for candidate in plan.candidates
    ]
    return {
        "layout": plan.layout.model_dump(mode="json"),
        "learner": plan.learner,
        "price_per_hour": hourly,
        "candidates": candidates,
        "memory": {str(size): asdict(model) for size, model in plan.memory.items()},
        "infeasible": [point.model_dump(mode="json") for point in plan.infeasible],
        **({"explained": [asdict(one) for one in explained(plan, hourly)]} if explain else {}),
    }
