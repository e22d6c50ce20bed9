"""`run_role`: runs a user's role by the paper's programming model (section 3)."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import load_yaml
from gmi_drl.launch.job import Job
from gmi_drl.launch.launchers import LOCAL, layout_for, supervisors_for
from gmi_drl.launch.open_layout import hold_devices, opened
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder

SLOT_BYTES = 8 * 2**20


def run_role(
    role: str,
    layout: Layout | Path | str,
    params: Mapping[str, Any] | None = None,
    *,
    run_dir: Path | str | None = None,
    hang_s: float = 300.0,
    launcher: str = LOCAL,
) -> dict[int, Any]:
    """Run a role on every GMI of a layout and wait for all of them.

    Args:
        role: The location of the class: `"file.py:MyRole"` or `"package.module:MyRole"`. It runs with your rights.
        layout: A layout, or the path of a layout file.
        params: Keyword arguments of its `GMI_run`, as JSON data.
        run_dir: The folder for logs; `runs/MyRole-TIME` by default.
        hang_s: Deadline in seconds of every wait between GMIs. Between devices (MRR, HAR, SHARD) some seconds are added
            to find the silent one.
        launcher: `local`, or `ray` to start the GMIs on the nodes of a cluster, where the role's file must exist, too.

    Returns:
        The results of `GMI_run`, by GMI id.

    Raises:
        UsageError: if the parameters are no JSON, or the folder has a run.
        GmiError: if a GMI fails or dies; the message names it and its log. The others are ended.
    """
    chosen = layout_for(launcher, layout if isinstance(layout, Layout) else load_yaml(Layout, Path(layout)))
    name = role.rpartition(":")[2]
    folder = RunFolder(
        Path(run_dir or f"runs/{name}-{time.strftime('%Y%m%d-%H%M%S')}-{time.monotonic_ns() % 1000:03d}")
    )
    roles, config = {gmi.id: role for gmi in chosen.gmis}, RunConfig(hang_s=hang_s)
    params = _as_json(params or {}, role)
    with supervisors_for(launcher, chosen) as supervisors:
        folder.create()
        with (
            folder.lock(),
            hold_devices(chosen, str(folder.path), supervisors) as claim,
            opened(claim, Job(chosen, config, folder, roles, SLOT_BYTES), params) as processes,
        ):
            for _ in processes.events():
                pass
    return dict(sorted(processes.results.items()))


def _as_json(params: Mapping[str, Any], role: str) -> dict[str, Any]:
    params = dict(params)
    try:
        json.dumps(params)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"parameters of {role} must be JSON (numbers, text, lists and dicts): {error}"
        raise UsageError(text) from None
    return params
