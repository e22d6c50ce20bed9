"""`python -m tools.measure`: measure every case whose result is missing, stale, or of a busy machine.

After a stop it continues. A case that lacks a peer's environment is left out if its result would lose a side.
"""

import argparse
import subprocess
import sys
from collections.abc import Collection, Mapping

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.cases import CASES, MEASURED, find_case
from gmi_drl.benchmarks.report import load_results
from gmi_drl.benchmarks.result import Result
from gmi_drl.benchmarks.stale import ROOT, stale
from gmi_drl.errors import UsageError
from tools.checkout import command

RESULTS = ROOT / "benchmarks" / "results"
REQUIREMENTS = "benchmarks/peers/requirements/"

RAY = {f"{REQUIREMENTS}rllib.txt", "gmi_drl/launch/ray/actor.py"}
"""What cases with Ray measure: its processes leave their parent, so the machine looks busy with others."""


def main() -> int:
    """Measure the cases one after the other, each in its own process. Returns 1 if one failed or lacked a peer."""
    parser = argparse.ArgumentParser(prog="python -m tools.measure", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of `gmi-drl bench --list`; all without any")
    asked = parser.parse_args().cases
    try:
        names = [find_case(name).name for name in asked] or list(CASES)
    except UsageError as error:
        parser.error(str(error))
    results = load_results(RESULTS)
    due = wanted(names, results, stale(results))
    print(f"{len(due)} of {len(names)} cases to measure: {', '.join(due) or 'none'}", flush=True)
    return 1 if [name for name in due if not measured(name, results.get(name))] else 0


def wanted(names: Collection[str], results: Mapping[str, Result], stale: Collection[str]) -> list[str]:
    """The cases without a result, or with a stale one, or with one of a busy machine."""
    return [name for name in names if name not in results or name in stale or was_busy(results[name])]


def was_busy(result: Result) -> bool:
    """Whether other processes kept the machine busy; not known of cases with Ray."""
    return result.machine.warning is not None and not RAY.intersection(MEASURED[result.case.name])


def lost_sides(result: Result) -> list[str]:
    """What the environment of each peer that is not here lacks, if the result has a side of that peer.

    Sides of a peer begin with its name.
    """
    named = [path for path in MEASURED[result.case.name] if path.startswith(REQUIREMENTS)]
    names = [path.removeprefix(REQUIREMENTS).removesuffix(".txt") for path in named]
    has = [name for name in names if any(side.lower().startswith(name) for side in result.samples)]
    return [missing for name in has if (missing := peers.no_environment(name))]


def measured(name: str, before: Result | None) -> bool:
    """Measure a case, unless this machine cannot. Returns whether it succeeded; False if it lacks a peer.

    Args:
        name: The case.
        before: Its result, none of whose sides may be lost.
    """
    obstacle = CASES[name].obstacle()
    lost = [] if obstacle or before is None else lost_sides(before)
    if obstacle or lost:
        print(f"{name}: left out: {obstacle or '; '.join(lost)}", flush=True)
        return not lost and peers.SETUP not in (obstacle or "")
    asked = command(ROOT, "bench", name, "-o", str(RESULTS / f"{name}.json"))
    return subprocess.run(**asked, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
