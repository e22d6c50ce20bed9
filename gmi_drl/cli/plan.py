"""`gmi-drl plan`."""

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from gmi_drl.cli.output import console, format_option, print_json
from gmi_drl.workload import TASK_SPECS

if TYPE_CHECKING:
    from gmi_drl.layout import Layout

DEFAULT_NUM_ENV = 256
MOST_NUM_ENV = 2**20  # as in a layout


@click.command()
@click.option("--task", type=click.Choice(sorted(TASK_SPECS)), default="ant", help="What is trained.")
@click.option(
    "--num-env", type=click.IntRange(1, MOST_NUM_ENV), default=DEFAULT_NUM_ENV, help="Environments of each GMI."
)
@click.option("--gmis-per-gpu", type=click.IntRange(min=1), help="GMIs of each device; one per core if not given.")
@click.option("--node", type=click.Path(path_type=Path), help="Plan for the machine in this node file.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("layout.yaml"),
    help="The layout file.",
)
@format_option
def plan(task: str, num_env: int, gmis_per_gpu: int | None, node: Path | None, output: Path, format: str) -> None:
    """Decide which GMIs a training gets, and write it to a layout file.

    Nothing is measured yet: the cores (or GPUs) are cut evenly, and the layout says so.
    """
    from gmi_drl.files import dump_yaml

    layout = make_layout(task, num_env, gmis_per_gpu, node)
    verb = "Replaced" if output.is_file() else "Wrote"
    write_file(output, dump_yaml(layout))
    if format == "json":
        print_json("plan", {"layout_file": str(output), "layout": layout.model_dump(mode="json")})
        return
    console().print(layout_tree(layout))
    where = f", on the machine of {node}" if node else ""
    console().print(f"{verb} {output}. Next{where}: gmi-drl train {output}", markup=False)


def make_layout(task: str, num_env: int, gmis_per_gpu: int | None, node_file: Path | None = None) -> "Layout":
    """Plan for this machine, or for the one in a node file."""
    from gmi_drl import scheduler
    from gmi_drl.files import load_yaml
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.hardware import Node

    node = load_yaml(Node, node_file) if node_file else this_node()
    return scheduler.plan(TASK_SPECS[task], node, num_env=num_env, gmis_per_device=gmis_per_gpu)


def write_file(path: Path, content: str) -> None:
    """Write a result where the user asked for it."""
    from gmi_drl.errors import MachineError
    from gmi_drl.files import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from None


def layout_tree(layout: "Layout") -> object:
    """Devices and their GMIs as a tree, with the reasons."""
    from rich.markup import escape
    from rich.tree import Tree

    title = f"{layout.task}, {layout.algo}: {len(layout.gmis)} GMIs, {layout.num_env} environments"
    tree = Tree(f"[bold]{title}[/bold]")
    for device in layout.devices:
        branch = tree.add(f"{device.kind} {device.index}  [dim]{layout.backend}, {layout.template}[/dim]")
        for gmi in device.gmis:
            cores = ",".join(map(str, gmi.cores))
            branch.add(f"GMI {gmi.id}: {gmi.num_env} environments on core{'s' * (len(gmi.cores) > 1)} {cores}")
    reasons = tree.add("why")
    for reason in layout.reasons:
        reasons.add(escape(reason))
    return tree
