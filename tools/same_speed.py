"""`python -m tools.same_speed CHECKOUT`: compare the speed of this checkout and another, measured in turn.

Each round measures our side of a few benchmark cases with one checkout, then with the other; every other round in the
opposite order. Ratios are taken within rounds. Writes docs/same_speed.md.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from tools.checkout import ROOT, command, commit

CASES = ("ant_step", "ppo_update", "costs", "gmis_512")
ROUNDS, REPEATS = 5, 1
LIMIT_S = 1800.0
PAGE = ROOT / "docs" / "same_speed.md"
HEAD = """# Same speed

What a redesign must not slow down: our side of benchmark cases, measured with the commits {old} and {new} in turn on
one machine, {rounds} rounds, samples in each: {repeats}. A ratio above 1 says that {new} is faster: the median of the
rounds, and their range. Others took up to {busy:.0%} of the cores meanwhile. Made by
`python -m tools.same_speed CHECKOUT`.

| case | {old} | {new} | ratio |
|---|---|---|---|
"""


def main() -> int:
    """Measure all cases with both checkouts in turn."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_speed", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other one, e.g. of `git worktree add`")
    parser.add_argument("--case", action="append", help=f"instead of {', '.join(CASES)}; repeatable")
    given = parser.parse_args()
    sides = {"old": given.checkout.resolve(), "new": ROOT}
    busy, lines = 0.0, []
    for case in given.case or CASES:
        values: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(ROUNDS):
            for side in list(sides)[:: 1 if number % 2 == 0 else -1]:
                result = measured(sides[side], case)
                values[side].append(ours(result))
                busy = max(busy, result["machine"]["busy"])
        lines.append(line(case, values, is_time=result["case"]["lower_is_better"], unit=result["case"]["unit"]))
        print(lines[-1], flush=True)
    old, new = commit(sides["old"]), commit(ROOT)
    PAGE.write_text(HEAD.format(old=old, new=new, rounds=ROUNDS, repeats=REPEATS, busy=busy) + "\n".join(lines) + "\n")
    return 0


def measured(checkout: Path, case: str) -> dict[str, Any]:
    """Run a case with a checkout. Returns its result."""
    asked = command(checkout, "bench", case, "--repeats", str(REPEATS), "--format", "json")
    ended = subprocess.run(**asked, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


def ours(result: dict[str, Any]) -> float:
    """The median of the case's first side, which is ours."""
    samples = next(iter(result["samples"].values()))
    return float(median(sample["value"] for sample in samples))


def line(case: str, values: dict[str, list[float]], *, is_time: bool, unit: str) -> str:
    """A row of the table."""
    pairs = zip(values["old"], values["new"], strict=True)
    ratios = sorted(old / new if is_time else new / old for old, new in pairs)
    both = " | ".join(f"{median(values[side]):.4g} {unit}" for side in ("old", "new"))
    return f"| {case} | {both} | {median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"


if __name__ == "__main__":
    sys.exit(main())
