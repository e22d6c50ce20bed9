"""`python -m tools.same_numbers CHECKOUT`: check that this checkout computes the same as another, to the last bit.

Both run the commands of `tools.same_cases`: all tasks, learners, templates and reductions on cores, one host and two,
plans and layouts. The files that they leave are compared (`tools.fingerprint`): tensors of checkpoints, metrics,
experience, layouts, texts. Each case has its own core. Writes docs/same_numbers.md.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

from gmi_drl.gmi.inventory import allowed_cores
from tools.checkout import ROOT, commit, printed, run
from tools.fingerprint import NUMBERS, digest, fingerprint
from tools.same_cases import Case, cases

SHOWN = 5
SAME = "same"
WORDS = "same numbers, other words"
"""The verdict on texts whose numbers are the same, in the same order."""
PAGE = ROOT / "docs" / "same_numbers.md"
HEAD = """# Same numbers

What a redesign must not move: what the commits {old} and {new} compute with the same seeds, on the same CPU. A digest
is of everything that the commands of a case leave, but for times: parameters, optimizer, environments, metrics,
experience, layouts, what plans print. Made by `python -m tools.same_numbers CHECKOUT`.

| case | {old} | {new} | |
|---|---|---|---|
"""


def main() -> int:
    """Run the cases with both checkouts. Returns 1 if some differ or fail."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_numbers", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other one, e.g. of `git worktree add`")
    parser.add_argument("--only", metavar="TEXT", help="cases with TEXT in their name; the page is not written")
    given = parser.parse_args()
    sides = given.checkout.resolve(), ROOT
    rows = compared([case for case in cases() if given.only is None or given.only in case.name], sides)
    if given.only is None:
        old, new = map(commit, sides)
        PAGE.write_text(HEAD.format(old=old, new=new) + "\n".join(rows) + "\n")
    return 0 if all(row.split(" | ")[-1].startswith(SAME) for row in rows) else 1


def compared(chosen: Sequence[Case], sides: Sequence[Path]) -> list[str]:
    """The rows of the table, in the order of the cases. One case runs on each core at a time."""
    free: Queue[int] = Queue()
    for core in allowed_cores():
        free.put(core)

    with TemporaryDirectory(prefix="gmi-drl-same-") as path, ThreadPoolExecutor(free.qsize()) as pool:

        def on_a_core(number: int, case: Case) -> str:
            core = free.get()
            try:
                row = compare(case, sides, Path(path) / str(number), core)
            finally:
                free.put(core)
            print(row, flush=True)
            return row

        return list(pool.map(on_a_core, range(len(chosen)), chosen))


def compare(case: Case, sides: Sequence[Path], folder: Path, core: int) -> str:
    """A row of the table: the case, the digest of each checkout, and what differs."""
    try:
        old, new = (left_by(case, checkout, folder / side, core) for side, checkout in zip("ab", sides, strict=True))
    except RuntimeError as error:
        print(error, file=sys.stderr, flush=True)
        return f"| {case.name} | | | fails |"
    digests = " | ".join(digest(repr(sorted(found.items())).encode()) for found in (old, new))
    return f"| {case.name} | {digests} | {verdict(old, new)} |"


def verdict(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """What differs between the digests of two checkouts; that settings and metrics came or went is told by name."""
    both = old.keys() & new.keys()
    if not both:
        return "differs: they leave nothing of the same name"
    differing = sorted(name for name in both if old[name] != new[name])
    if differing and all(f"{name} {NUMBERS}" in both - set(differing) for name in differing):
        return WORDS
    if differing:
        more = f" and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        return f"differs: {', '.join(differing[:SHOWN])}{more}"
    renamed = sorted({name.split()[-1] for name in old.keys() ^ new.keys()})
    return f"{SAME}, beside what one has alone: {', '.join(renamed)}" if renamed else SAME


def left_by(case: Case, checkout: Path, folder: Path, core: int) -> dict[str, str]:
    """The digests of the files that a case leaves with a checkout, as `fingerprint` has them.

    Raises:
        RuntimeError: if a command fails.
    """
    folder.mkdir(parents=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    for name, text in case.files.items():
        (folder / name).write_text(text)
    if case.is_printed:
        for number, text in enumerate(printed(checkout, [line[1:] for line in case.commands], folder, [core]), 1):
            (folder / f"printed-{number}.txt").write_text(text)
    else:
        for line in case.commands:
            run(checkout, line, folder, [core])
    return fingerprint(folder)


if __name__ == "__main__":
    sys.exit(main())
