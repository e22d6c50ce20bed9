"""`python -m tools.same_numbers CHECKOUT`: whether this checkout learns what another one learns, to the last bit.

Both train 3 tasks with 2 seeds, 1 and 2 GMIs and both learners for a few iterations, and what `make train` does for
more of them; what all replicas hold alike at the end is compared. Writes docs/same_numbers.md.
"""

import argparse
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.checkout import ROOT, commit, learner_digest, train

TASKS, SEEDS, GMIS, LEARNERS = ("ant", "ball_balance", "mujoco:HalfCheetah-v5"), (0, 1), (1, 2), ("ppo", "rsl_rl")
FEW = {"--num-env": 32, "--iterations": 3}
LIKE_MAKE_TRAIN = {
    "--task": "ant",
    "--seed": 0,
    "--gmis-per-gpu": 2,
    "--algo": "ppo",
    "--num-env": 256,
    "--iterations": 200,
}
"""Its plan for two cores; what its 90 s hold differs from machine to machine."""

PAGE = ROOT / "docs" / "same_numbers.md"
HEAD = """# Same numbers

What a redesign must not move: trainings of the commits {old} and {new} with the same seeds, on the same CPU. A digest
is of all that replicas hold alike at the end (parameters, optimizer, statistics of observations). The last line is
what `make train` runs on two cores. Made by `python -m tools.same_numbers CHECKOUT`.

| task | seed | GMIs | learner | environments of each | iterations | {old} | {new} | |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> int:
    """Train all pairs. Returns 1 if some differ."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_numbers", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other one, e.g. of `git worktree add`")
    other = parser.parse_args().checkout.resolve()
    rows = []
    with TemporaryDirectory(prefix="gmi-drl-same-") as path:
        for number, options in enumerate([*short_trainings(), LIKE_MAKE_TRAIN]):
            digests = []
            for side, checkout in (("old", other), ("new", ROOT)):
                folder = Path(path) / f"{number}-{side}"
                train(checkout, options, folder)
                digests.append(learner_digest(folder)[:12])
            verdict = "same" if digests[0] == digests[1] else "differs"
            rows.append(f"| {' | '.join(map(str, [*options.values(), *digests, verdict]))} |")
            print(rows[-1], flush=True)
    PAGE.write_text(HEAD.format(old=commit(other), new=commit(ROOT)) + "\n".join(rows) + "\n")
    return 1 if any("differs" in row for row in rows) else 0


def short_trainings() -> list[dict[str, object]]:
    """Options of the command, in the order of the page's columns."""
    names = "--task", "--seed", "--gmis-per-gpu", "--algo"
    return [dict(zip(names, values, strict=True)) | FEW for values in product(TASKS, SEEDS, GMIS, LEARNERS)]


if __name__ == "__main__":
    sys.exit(main())
