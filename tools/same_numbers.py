"""`python -m tools.same_numbers CHECKOUT`: whether this checkout learns what another one learns, to the last bit.

Both train 3 tasks with 2 seeds, 1 and 2 GMIs and both learners for a few iterations; what all replicas hold alike at
the end is compared. Writes docs/same_numbers.md.
"""

import argparse
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.checkout import ROOT, commit, learner_digest, train

TASKS, SEEDS, GMIS, LEARNERS = ("ant", "ball_balance", "mujoco:HalfCheetah-v5"), (0, 1), (1, 2), ("ppo", "rsl_rl")
FIXED = {"--num-env": 32, "--iterations": 3}
PAGE = ROOT / "docs" / "same_numbers.md"
HEAD = """# Same numbers

What a redesign must not move: short trainings ({fixed}) of the commits {old} and {new} with the same seeds, on the same
CPU. A digest is of all that replicas hold alike at the end (parameters, optimizer, statistics of observations). Made by
`python -m tools.same_numbers CHECKOUT`.

| task | seed | GMIs | learner | {old} | {new} | |
|---|---|---|---|---|---|---|
"""


def main() -> int:
    """Train all pairs. Returns 1 if some differ."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_numbers", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other one, e.g. of `git worktree add`")
    other = parser.parse_args().checkout.resolve()
    rows = []
    with TemporaryDirectory(prefix="gmi-drl-same-") as path:
        for number, (task, seed, gmis, learner) in enumerate(product(TASKS, SEEDS, GMIS, LEARNERS)):
            options = FIXED | {"--task": task, "--seed": seed, "--gmis-per-gpu": gmis, "--algo": learner}
            digests = []
            for side, checkout in (("old", other), ("new", ROOT)):
                folder = Path(path) / f"{number}-{side}"
                train(checkout, options, folder)
                digests.append(learner_digest(folder)[:12])
            verdict = "same" if digests[0] == digests[1] else "differs"
            rows.append(f"| {task} | {seed} | {gmis} | {learner} | {digests[0]} | {digests[1]} | {verdict} |")
            print(rows[-1], flush=True)
    fixed = ", ".join(f"{name.removeprefix('--')} {value}" for name, value in FIXED.items())
    PAGE.write_text(HEAD.format(fixed=fixed, old=commit(other), new=commit(ROOT)) + "\n".join(rows) + "\n")
    return 1 if any("differs" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
