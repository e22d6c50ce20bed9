"""`python -m tools.mutants`: try a sample of mutants of each package, write docs/mutants.md. Continues after a stop.

Of one package, by the tests of two folders alone:

    python -m tools.mutants replay --tests tests/replay tests/roles/replay -o docs/mutants_replay.md
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tools.mutants import report
from tools.mutants.coverage_map import CoverageMap, digests_of, measure
from tools.mutants.operators import Mutant, mutants_of, sample
from tools.mutants.results import Result, Results
from tools.mutants.trial import HUNG, PASSED, copy_checkout, die_with_parent, failed_test, run_tests, try_mutant

PACKAGES = ("algo", "comm", "gmi", "launch", "profiler", "replay", "roles", "run", "scheduler", "templates")
SIZE, SEED = 60, 0
ROOT = Path(__file__).resolve().parents[2]
SCRATCH = ROOT / ".mutants"
PAGE = ROOT / "docs" / "mutants.md"
"""The page of the usual sample. Results are in a file beside it, of the same name with `.jsonl`."""

SLACK_S, SLOWER = 60.0, 2.0
"""A mutant hangs if its tests take longer than `SLOWER` times their usual time plus `SLACK_S` seconds."""


def main() -> int:
    """Measure which tests run which lines, try the mutants without a result, and write the score."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(PACKAGES)}; all without any")
    parser.add_argument("--size", type=int, default=SIZE, help=f"mutants of each package ({SIZE})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"chooses the sample ({SEED})")
    parser.add_argument(
        "--tests", nargs="+", default=["tests"], help="folders of tests that may notice; all without it"
    )
    parser.add_argument("-o", "--page", type=Path, help="the page with the score; its results are kept beside it")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="at a time (one per core)")
    given = parser.parse_args()
    if unknown := set(given.packages) - set(PACKAGES):
        parser.error(f"no package {', '.join(sorted(unknown))}: there are {', '.join(PACKAGES)}")
    tests = [os.path.normpath(folder) for folder in given.tests]
    if tests != ["tests"] and not given.page:
        parser.error("--tests needs a page of its own: -o FILE")
    page = (given.page or PAGE).resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.chdir(ROOT)
    coverage_map = _map(given.workers, tests)
    chosen = {package: sample(_mutants(package), given.size, given.seed) for package in given.packages or PACKAGES}
    everything = [mutant for mutants in chosen.values() for mutant in mutants]
    results = Results(page.with_suffix(".jsonl"), coverage_map.digests)
    todo = [mutant for mutant in everything if results.outcome(mutant) is None]
    print(f"{len(todo)} of {len(everything)} mutants to try, {given.workers} at a time", flush=True)
    for done, result in enumerate(_tried(todo, coverage_map, given.workers), 1):
        results.add(result)
        mutant = result.mutant
        print(f"{done}/{len(todo)} {result.outcome:9} {mutant.path}:{mutant.line} {mutant.operator}", flush=True)
    _check_killers(results, everything)
    outcomes = {mutant.name: results.outcome(mutant) or "not tried" for mutant in everything}
    print(dict(Counter(outcomes.values())))
    if given.page or (given.packages, given.size, given.seed) == ([], SIZE, SEED):
        asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        commit = asked.stdout.strip()
        page.write_text(report.page(chosen, outcomes, seed=given.seed, commit=commit, tests=tests))
    return 0


def _mutants(package: str) -> list[Mutant]:
    return [mutant for file in sorted(Path("gmi_drl", package).rglob("*.py")) for mutant in mutants_of(file)]


def _map(workers: int, tests: Sequence[str]) -> CoverageMap:
    """Load or measure which tests of these folders run which lines."""
    path = SCRATCH / f"map-{'-'.join(test.replace('/', '.') for test in tests)}.json"
    SCRATCH.mkdir(exist_ok=True)
    known = CoverageMap.load(path) if path.exists() else CoverageMap()
    if stale := known.stale_tests(digests_of(ROOT), tests):
        print(f"measuring which tests run which lines: {' '.join(stale)}", flush=True)
        fresh = measure(ROOT, SCRATCH / "coverage", workers, stale)
        known = fresh if stale == [*tests] else known.renewed(fresh, stale)
        known.save(path)
    return known


def _tried(todo: Iterable[Mutant], coverage_map: CoverageMap, workers: int) -> Iterator[Result]:
    """Try mutants in a pool of processes. Yields results as they come."""
    _import_slow_libraries()
    context = get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=die_with_parent) as pool:
        running = []
        for mutant in todo:
            tests = coverage_map.tests_for(mutant.path, mutant.line)
            seconds = sum(coverage_map.seconds[test] for test in tests)
            running.append(pool.submit(_result, mutant, tests, SLACK_S + SLOWER * seconds))
        try:
            for future in as_completed(running):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _result(mutant: Mutant, tests: list[str], deadline_s: float) -> Result:
    """Try one mutant, in a process of the pool."""
    if not tests:
        return Result(mutant, "not run", "")
    copy = SCRATCH / f"copy-{os.getpid()}"
    if not copy.exists():
        copy_checkout(ROOT, copy)
    log = SCRATCH / "logs" / f"{mutant.name}.log"
    log.parent.mkdir(exist_ok=True)
    code = try_mutant(mutant, copy, tests, deadline_s, log)
    if code == PASSED:
        return Result(mutant, "survived", "")
    return Result(mutant, "hung", tests[0]) if code == HUNG else Result(mutant, "killed", failed_test(log))


def _check_killers(results: Results, mutants: Iterable[Mutant]) -> None:
    """Run every test that has killed a mutant once without a mutant, and drop the results of tests that fail then."""
    killers = sorted({results.by(mutant) for mutant in mutants if results.outcome(mutant) == "killed"} - {""})
    if not killers:
        return
    copy, log = SCRATCH / "copy-whole", SCRATCH / "whole.log"
    copy_checkout(ROOT, copy)
    print(f"running the {len(killers)} tests that killed, without a mutant", flush=True)
    _import_slow_libraries()
    while run_tests(copy, killers, 3600.0, log) != PASSED:
        failed = failed_test(log)
        if not failed:
            raise SystemExit(f"without a mutant the tests that killed hang, or end badly though none fails: see {log}")
        print(f"{failed} fails without a mutant: its results count as not tried", flush=True)
        results.forget(failed)
        killers = [killer for killer in killers if killer != failed] if failed in killers else []
        if not killers:
            return


def _import_slow_libraries() -> None:
    """Import slow libraries once for all forks, and nothing of the package itself."""
    import hypothesis
    import mujoco
    import pydantic
    import torch

    assert all((hypothesis, mujoco, pydantic, torch))
    assert not any(name.partition(".")[0] == "gmi_drl" for name in sys.modules)


if __name__ == "__main__":
    for old in SCRATCH.glob("copy-*"):
        shutil.rmtree(old)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped: the same command continues")
