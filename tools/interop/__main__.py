"""`python -m tools.interop`: try the libraries that are installed, and write docs/interop.md."""

import argparse
import sys
from collections.abc import Collection

from tools.interop.clients import CLIENTS, Client
from tools.interop.results import Results, has_failed
from tools.interop.runs import ROOT, RunFailedError

PAGE, KEPT = ROOT / "docs" / "interop.md", ROOT / "docs" / "interop.json"


def main() -> int:
    """Run the chosen trials. Returns 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.interop", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(CLIENTS)}; all without any")
    parser.add_argument("--task", action="append", metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--missing", action="store_true", help="only tasks without a row: goes on where it was stopped")
    given = parser.parse_args()
    if unknown := set(given.clients) - set(CLIENTS):
        parser.error(f"no client {', '.join(sorted(unknown))}: there are {', '.join(CLIENTS)}")
    results = Results(KEPT)
    names = given.clients or list(CLIENTS)
    failed = [name for name in names if not _try(CLIENTS[name], given.task, given.missing, results)]
    PAGE.write_text(results.page())
    print(f"Wrote {PAGE.relative_to(ROOT)}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def _try(client: Client, only: Collection[str] | None, missing: bool, results: Results) -> bool:
    """Try the tasks of a library. Returns whether all succeeded."""
    versions = client.versions()
    if not versions:
        print(f"{client.name} is not installed: {client.remedy}")
        return True
    is_well = True
    try:
        with client.open(client.python) as trials:
            for task, trial in trials.items():
                if (only and task not in only) or (missing and results.has(client.name, versions, task)):
                    continue
                row = trial()
                results.add(client.name, versions, task, row)
                is_well = is_well and not has_failed(row)
                print(f"{client.name} {task}: {row}", flush=True)
    except RunFailedError as failure:
        print(f"{client.name}: {failure}", file=sys.stderr)
        return False
    return is_well


if __name__ == "__main__":
    sys.exit(main())
