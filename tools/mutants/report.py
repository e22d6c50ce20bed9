"""docs/mutants.md: the score of a sample, the operators, and the survivors with their reasons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tools.mutants.operators import OPERATORS, Mutant

EXPLAINED = Path(__file__).with_name("explained.yaml")
"""A file that says, by the name of a survivor, why no test kills it."""

NOTICED, MISSED = ("killed", "hung"), ("survived", "not run")

HEAD = """# Mutants

How good are the tests? `make mutants` makes small faults in the package, one at a time. For each it runs the tests that
run the changed line (measured with coverage.py, in all processes that a test starts): those of the same folder, and the
quickest of others for up to a minute. If no test was seen to run a line, as killed processes report none, the tests of
its module are run. A fault that no test notices has survived. The samples are fixed by a seed. An interrupted run
continues. The tool writes this page; it is not part of `make test`.
"""


def page(
    chosen: Mapping[str, Sequence[Mutant]],
    outcomes: Mapping[str, str],
    *,
    seed: int,
    commit: str,
    tests: Sequence[str] = ("tests",),
) -> str:
    """The page on samples of packages, by the tests of some folders; names and lines are those of a commit."""
    reasons: dict[str, str] = yaml.safe_load(EXPLAINED.read_text()) or {}
    everything = [mutant for mutants in chosen.values() for mutant in mutants]
    lines = [
        HEAD,
        f"Seed {seed}, tests in {', '.join(tests)}. Files, lines and names are those of commit {commit}.\n",
        *_table(chosen, outcomes),
        "",
        "## What is changed",
        "",
    ]
    lines += ["| operator | what it does | tried | survived |", "|---|---|---|---|"]
    tried = Counter(mutant.operator for mutant in everything if outcomes.get(mutant.name) in (*NOTICED, *MISSED))
    left = Counter(mutant.operator for mutant in everything if outcomes.get(mutant.name) in MISSED)
    lines += [f"| {name} | {what} | {tried[name]} | {left[name]} |" for name, what in OPERATORS.items()]
    lines += [
        "",
        "Left alone: texts and messages, types, imports, assertions, and numbers above 2.",
        "",
        "## What survived",
    ]
    for package, mutants in chosen.items():
        survivors = [mutant for mutant in mutants if outcomes.get(mutant.name) in MISSED]
        lines += ["", f"### {package}", ""] if survivors else []
        lines += [_line(mutant, outcomes[mutant.name], reasons) for mutant in survivors]
    return "\n".join(lines) + "\n"


def _table(chosen: Mapping[str, Sequence[Mutant]], outcomes: Mapping[str, str]) -> list[str]:
    lines = [
        "| package | mutants | killed | hung | survived | not run by a test | not tried yet | noticed of those tried |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for package, mutants in chosen.items():
        counts = Counter(outcomes.get(mutant.name, "not tried") for mutant in mutants)
        lines.append(_row(package, counts))
        total += counts
    return [*lines, _row("all", total)]


def _row(name: str, counts: Counter[str]) -> str:
    tried = counts.total() - counts["not tried"]
    noticed = sum(counts[outcome] for outcome in NOTICED)
    columns = [counts[outcome] for outcome in ("killed", "hung", "survived", "not run", "not tried")]
    share = f"{noticed / tried:.0%}" if tried else "-"
    return f"| {name} | {counts.total()} | {' | '.join(map(str, columns))} | {share} |"


def _line(mutant: Mutant, outcome: str, reasons: Mapping[str, str]) -> str:
    change = f"`{_short(mutant.original)}` to `{_short(mutant.replacement)}`"
    reason = reasons.get(mutant.name, "not explained")
    return f"- {mutant.path}:{mutant.line} {mutant.operator}: {change} ({outcome}; `{mutant.name}`). {reason}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
