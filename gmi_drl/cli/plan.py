"""`gmi-drl plan`."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from gmi_drl.cli.output import console, format_option, print_json
from gmi_drl.errors import UsageError
from gmi_drl.units import human_ranges
from gmi_drl.workload import MOST_ENVIRONMENTS, TASK_SPECS

if TYPE_CHECKING:
    from gmi_drl.hardware import Node
    from gmi_drl.layout import Device, Layout

DEFAULT_NUM_ENV = 256
SHOWN_DEVICES = 8
SHOWN_GMIS = 16


@click.command()
@click.option("--task", type=click.Choice(sorted(TASK_SPECS)), default="ant", help="What is trained.")
@click.option(
    "--num-env",
    type=click.IntRange(1, MOST_ENVIRONMENTS),
    help=f"Environments of each GMI.  [default: {DEFAULT_NUM_ENV}]",
)
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="GMIs of each device.  [default: one per core]")
@click.option("--profile", type=click.Path(path_type=Path), help="Choose by what this profile file has measured.")
@click.option("--node", type=click.Path(path_type=Path), help="Plan for the machine in this node file.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("layout.yaml"),
    help="The layout file.",
)
@format_option
def plan(
    task: str,
    num_env: int | None,
    gmis_per_gpu: int | None,
    profile: Path | None,
    node: Path | None,
    output: Path,
    format: str,
) -> None:
    """Decide which GMIs a training gets, and write it to a layout file.

    With a --profile by Algorithm 2 of the paper; without one nothing is known, so the cores (or GPUs) are cut evenly
    and the layout says so. Neither measures anything itself yet.
    """
    from gmi_drl.files import dump_yaml

    if profile is not None and (num_env or gmis_per_gpu):
        raise UsageError("--num-env and --gmis-per-gpu are what a --profile decides: leave them out")
    verb = "Replaced" if output.is_file() else "Wrote"
    with _no_garbage():
        if profile is None:
            layout = make_layout(task, num_env or DEFAULT_NUM_ENV, gmis_per_gpu, node)
        else:
            layout = _measured_layout(task, profile, node)
        write_file(output, dump_yaml(layout))
    if format == "json":
        print_json("plan", {"layout_file": str(output), "layout": layout.model_dump(mode="json")})
        return
    console().print(layout_tree(layout))
    where = f", on the machine of {node}" if node else ""
    console().print(f"{verb} {output}. Next{where}: gmi-drl train {output}", markup=False, soft_wrap=True)


def make_layout(task: str, num_env: int, gmis_per_gpu: int | None, node_file: Path | None = None) -> "Layout":
    """Cut this machine evenly, or the one in a node file."""
    from gmi_drl import scheduler

    return scheduler.plan(TASK_SPECS[task], _node(node_file), num_env=num_env, gmis_per_device=gmis_per_gpu)


def _measured_layout(task: str, profile_file: Path, node_file: Path | None) -> "Layout":
    from gmi_drl import scheduler
    from gmi_drl.profile import load_profile

    return scheduler.plan_measured(TASK_SPECS[task], _node(node_file), load_profile(profile_file))


def _node(node_file: Path | None) -> "Node":
    if node_file is None:
        from gmi_drl.gmi.inventory import this_node

        return this_node()
    from gmi_drl.files import load_yaml
    from gmi_drl.hardware import Node

    return load_yaml(Node, node_file)


def write_file(path: Path, content: str) -> None:
    """Write a result where the user asked for it."""
    from gmi_drl.errors import MachineError
    from gmi_drl.files import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _no_garbage() -> Iterator[None]:
    """A plan of 80,000 GMIs makes a million objects and no cycles; looking for cycles costs a third of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def layout_tree(layout: "Layout") -> object:
    """Devices and their GMIs as a tree, with the reasons; a line for each device where the GMIs are many."""
    from rich.markup import escape
    from rich.tree import Tree

    title = f"{layout.task}, {layout.algo}: {len(layout.gmis)} GMIs, {layout.num_env} environments"
    tree = Tree(f"[bold]{title}[/bold]")
    for device in layout.devices[:SHOWN_DEVICES]:
        branch = tree.add(f"{device.kind} {device.index}  [dim]{layout.backend}, {layout.template}[/dim]")
        if len(layout.gmis) > SHOWN_GMIS:
            branch.label = f"{branch.label}  {_summary(device)}"
            continue
        for gmi in device.gmis:
            branch.add(f"GMI {gmi.id}: {gmi.num_env} environments on {_cores(gmi.cores)}")
    if len(layout.devices) > SHOWN_DEVICES:
        tree.add(f"and {len(layout.devices) - SHOWN_DEVICES} more devices")
    reasons = tree.add("why")
    for reason in layout.reasons:
        reasons.add(escape(reason))
    return tree


def _summary(device: "Device") -> str:
    """What a device holds, in one line."""
    ids = human_ranges([gmi.id for gmi in device.gmis])
    cores = _cores([core for gmi in device.gmis for core in gmi.cores])
    num_env = sum(gmi.num_env for gmi in device.gmis)
    return f"GMI{'s' * (len(device.gmis) > 1)} {ids}: {num_env} environments on {cores}"


def _cores(cores: Sequence[int]) -> str:
    return f"core{'s' * (len(cores) > 1)} {human_ranges(cores)}"
