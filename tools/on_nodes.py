"""`python -m tools.on_nodes LAYOUT FOLDER ITERATIONS`: a training over nodes that are processes of this machine.

It does what `gmi-drl train LAYOUT --run-dir FOLDER` does on a Ray cluster, without Ray.
"""

import sys
from pathlib import Path

from gmi_drl.config.run_config import default_config
from gmi_drl.files import load_yaml
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.task_info import task_spec
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import template_of


def main(layout_file: str, path: str, iterations: str) -> None:
    """Train on the nodes of a layout, with the default configuration of its task."""
    layout, folder = load_yaml(Layout, Path(layout_file)), RunFolder(Path(path))
    assert layout.task is not None, "the layout names its task"
    usual = default_config(task_spec(layout.task), template_of(layout).usual_learner)
    folder.create()
    job = resolve(layout, usual.model_copy(update={"iterations": int(iterations)}), folder)
    train(job, supervisors=SubprocessSupervisors())


if __name__ == "__main__":
    main(*sys.argv[1:])
