"""`gmi-drl export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from gmi_drl.cli.local_task import open_task
from gmi_drl.cli.options import format_option, simulator_option, use_simulator
from gmi_drl.cli.output import console, plain_table, print_json, require_folder, say
from gmi_drl.errors import UsageError

if TYPE_CHECKING:
    from gmi_drl.results.export import Exported, Kind


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(["onnx", "torch"]), default="onnx", help="ONNX, or a program of torch.export.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file.  [default: policy.onnx or policy.pt2]")
@simulator_option
@format_option
def export(run: Path, to: "Kind", output: Path | None, simulator_python: str | None, format: str) -> None:
    """Write the policy of a RUN, with the scaling of its observations, as a file that runs without gmi-drl.

    It gives the actions of `play`, which are those without noise. The newest checkpoint is taken.
    """
    from gmi_drl.results.export import SUFFIX, require_exporter
    from gmi_drl.results.export import export as write
    from gmi_drl.results.policy_module import module_of
    from gmi_drl.roles.serving.load_player import load_player
    from gmi_drl.roles.serving.player import require_task
    from gmi_drl.run.folder import RunFolder

    folder = RunFolder(run)
    layout, config = folder.read_setup()
    task_name = require_task(folder, layout)
    if config.policies:
        raise UsageError(f"{run} has several policies: name the folder of one, as {run}/policies/NAME")
    path = output or Path("policy").with_suffix(SUFFIX[to])
    require_folder(path)
    require_exporter(to)
    use_simulator(simulator_python, task_name)
    with open_task(task_name, 1, 0, settings=config.task) as task:
        player = load_player(folder, config, task)
        say(f"Exporting the policy of {run}, iteration {player.iteration}...")
        facts = {"task": task_name, "iteration": str(player.iteration), "written_by": "gmi-drl"}
        exported = write(module_of(player), path, to, facts)
    document = {"run": str(run), "file": str(path), "to": to, "task": task_name, "iteration": player.iteration}
    _report(document, exported, format)


def _report(document: dict[str, Any], exported: "Exported", format: str) -> None:
    """Print what goes in and comes out."""
    sides = {"inputs": exported.inputs, "outputs": exported.outputs}
    if format == "json":
        described = {name: [vars(port) for port in side] for name, side in sides.items()}
        print_json("export", {**document, **described, "notes": exported.notes})
        return
    table = plain_table("", "name", "type", "shape", "")
    for side, ports in sides.items():
        for port in ports:
            shape = f"[{', '.join(map(str, port.shape))}]"
            table.add_row(side.removesuffix("s"), port.name, port.dtype, shape, exported.notes.get(port.name, ""))
    console().print(table, markup=False)
    say(f"Wrote {document['file']}: N is any number of observations")
