"""`python -m tools.measure`: measure every case whose result is missing or stale. After a stop it continues."""

import argparse
import subprocess
import sys
from collections.abc import Collection, Mapping

from gmi_drl.benchmarks.cases import CASES, find_case
from gmi_drl.benchmarks.report import load_results
from gmi_drl.benchmarks.result import Result
from gmi_drl.benchmarks.stale import ROOT, stale
from gmi_drl.errors import UsageError
from tools.checkout import command

RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """Measure the cases one after the other, each in its own process. Returns 1 if one failed."""
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
    return 1 if [name for name in due if not measured(name)] else 0


def wanted(names: Collection[str], results: Mapping[str, Result], stale: Collection[str]) -> list[str]:
    """The cases without a result, or with a stale one."""
    return [name for name in names if name not in results or name in stale]


def measured(name: str) -> bool:
    """Measure a case, unless this machine cannot. Returns whether it succeeded."""
    if obstacle := CASES[name].obstacle():
        print(f"{name}: left out: {obstacle}", flush=True)
        return True
    asked = command(ROOT, "bench", name, "-o", str(RESULTS / f"{name}.json"))
    return subprocess.run(**asked, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
