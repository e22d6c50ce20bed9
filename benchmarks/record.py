"""What every result says about where it comes from."""

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gmi_drl.run.folder import versions


def machine() -> dict[str, Any]:
    """The machine, its load, the versions and the commit that numbers depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "versions": versions(),
        "commit": commit,
    }


def write(path: Path, schema: str, before: dict[str, Any], settings: dict[str, Any], results: Any) -> None:
    """Write one result file. `before` is what `machine` said when the measurement began."""
    document = {"schema": f"gmi-drl/{schema}/1", "machine": before, "settings": settings, "results": results}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"Wrote {path}")
