"""Soak: random command lines and mutated files. Each must end with a message and a documented exit code.

    python benchmarks/inputs/soak_inputs.py --cases 5000 --seed 1

Takes some minutes on one core. Commands run in this process; where one would start processes or measure, it fails. A
case is wrong if its exit code is not documented, or if it prints "unexpected" or a traceback. Each case has its own
seed: `--only NUMBER` runs one again and shows its output.
"""

import argparse
import json
import os
import platform
import random
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from input_commands import command_of, random_command
from input_files import FILES, mutated, write_files
from input_runner import Said, run_here

CODES = frozenset({0, 1, 2, 3, 4, 5, 6})
FILES_SHARE = 0.7
"""The share of cases with mutated files; the others are random command lines."""


def main() -> int:
    """Run all cases. Returns 1 if one was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this case alone, with all that it said")
    given = parser.parse_args()
    numbers = range(given.cases) if given.only is None else [given.only]
    began_s = time.perf_counter()
    with TemporaryDirectory() as folder:
        wrong, codes = soaked(numbers, given.seed, Path(folder), shows=given.only is not None)
    print(f"{len(numbers)} cases, seed {given.seed}, Python {platform.python_version()}, {platform.machine()}")
    for kind in sorted({kind for kind, _ in codes}):
        told = ", ".join(f"{count} x {code}" for (of, code), count in sorted(codes.items()) if of == kind)
        print(f"  {kind}: exit codes {told}")
    print(f"{time.perf_counter() - began_s:.0f} s; wrong: {len(wrong)}")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong else 0


def soaked(
    numbers: "range | list[int]", seed: int, folder: Path, *, shows: bool = False
) -> tuple[list[str], "Counter[tuple[str, int]]"]:
    """Run cases. Returns a line for each that was wrong, and how often each kind ended by each exit code."""
    templates = folder / "templates"
    write_files(templates)
    wrong, codes = list[str](), Counter[tuple[str, int]]()
    for number in numbers:
        kind, arguments, said = one(random.Random(f"{seed} {number}"), templates, folder / f"case-{number}")
        codes[kind, said.code] += 1
        if shows:
            print(json.dumps(arguments), said.out, said.err, sep="\n")
        if why := fault(said):
            wrong.append(f"case {number}, {kind}, {json.dumps(arguments)}: {why}")
            print(wrong[-1], flush=True)
    return wrong, codes


def one(chance: random.Random, templates: Path, folder: Path) -> tuple[str, list[str], Said]:
    """Run one case in a temporary folder."""
    with TemporaryDirectory(prefix=folder.name, dir=folder.parent) as place:
        here = Path(place)
        if chance.random() < FILES_SHARE:
            kind = chance.choice(tuple(FILES))
            file = mutated(chance, kind, templates, here)
            arguments = command_of(chance, kind, file, here)
        else:
            arguments = random_command(chance, templates, here)
            kind = f"command {arguments[0]}"
        return kind, arguments, run_here(arguments, here)


def fault(said: Said) -> str | None:
    """What is wrong with how a command ended; None if nothing."""
    if "gmi-drl: unexpected" in said.err or "Traceback" in said.out + said.err:
        return said.err.strip()[-600:]
    return None if said.code in CODES else f"exit code {said.code}"


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main())
