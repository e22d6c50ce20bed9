"""What two GMIs of a sequence policy wait for contexts that are collected ahead, and for those that are not."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import all_cores

UPDATES, EPISODES, STEPS = 40, 200, 1000
QUICK_UPDATES, QUICK_EPISODES, QUICK_STEPS = 2, 4, 12


@contextmanager
def open_prefetch(quick: bool) -> Iterator[Sides]:
    """Two pairs of learners, from the same folder."""
    from gmi_drl.benchmarks.cases.components.sequence_ends import LearnerPair, episodes_of
    from gmi_drl.replay import import_episodes

    updates, *sizes = (QUICK_UPDATES, QUICK_EPISODES, QUICK_STEPS) if quick else (UPDATES, EPISODES, STEPS)
    with TemporaryDirectory() as folder, all_cores() as cores, ExitStack() as stack:
        made = Path(folder) / "made.replay"
        import_episodes(episodes_of(*sizes), made)
        ways = {"two batches ahead": True, "when they are needed": False}
        two = cores[0], cores[-1]
        pairs = {
            name: stack.enter_context(closing(LearnerPair(made, is_ahead, two))) for name, is_ahead in ways.items()
        }
        for pair in pairs.values():
            pair.measure(QUICK_UPDATES)
        yield {name: partial(pair.measure, updates) for name, pair in pairs.items()}


CASES = (
    Case(
        name="sequence_prefetch",
        claim=f"The part of an update of a sequence policy that a GMI of two waits for its contexts, out of "
        f"{EPISODES} episodes of {STEPS:,} steps: collected two batches ahead in a thread, against when needed.",
        unit="of an update",
        open=open_prefetch,
        obstacle=partial(requirements.cores, 2),
        lower_is_better=True,
        reference="GEAR, section 3.4: collection that goes on while the model is trained",
        limits="The thread shares the core of its learner: it hides the wait for the other GMI, and not the work. Both "
        "sum their gradients, as in a training; what one waits for there because the other is slower does not count.",
    ),
)
