"""An update of a sequence policy, with its contexts, against a plain loop of torch."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core

UPDATES, EPISODES, STEPS = 200, 200, 1000
QUICK_UPDATES, QUICK_EPISODES, QUICK_STEPS = 20, 20, 100


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Both learn from the same folder with the same sizes, after a few updates each."""
    import torch

    from gmi_drl.algo.sequence import Sequence
    from gmi_drl.algo.sequence_agent import make_sequence_agent
    from gmi_drl.benchmarks.cases.components.sequence_ends import SPEC, episodes_of
    from gmi_drl.benchmarks.cases.components.sequence_loop import Loop
    from gmi_drl.comm.links.alone import AloneLink
    from gmi_drl.config.learners import SequenceConfig
    from gmi_drl.replay import EpisodeSet, import_episodes
    from gmi_drl.roles.sequence.draws import Draws, scaling_of

    updates, *sizes = (QUICK_UPDATES, QUICK_EPISODES, QUICK_STEPS) if quick else (UPDATES, EPISODES, STEPS)
    config = SequenceConfig()
    with TemporaryDirectory() as folder, one_core():
        made = Path(folder) / "made.replay"
        import_episodes(episodes_of(*sizes), made)
        episodes = EpisodeSet(made)
        agent = make_sequence_agent(SPEC, config, torch.device("cpu"), seed=0)
        agent.normaliser.load(scaling_of(episodes, None))
        ours, loop = Sequence(agent, config), Loop(episodes, config, seed=0)
        drawn = Draws(episodes, AloneLink(), context=config.context, batch=config.batch, exponent=0.0, seed=0)
        with closing(drawn):
            sides: dict[str, Callable[[], object]] = {
                "gmi-drl": lambda: ours.update(drawn.draw()),
                "torch": loop.update,
            }
            for update in sides.values():
                mean_seconds(update, QUICK_UPDATES)
            tokens = 3 * config.batch * config.context
            yield {name: partial(_timed, update, updates, tokens) for name, update in sides.items()}


def _timed(update: Callable[[], object], count: int, tokens: int) -> Sample:
    seconds = mean_seconds(update, count).value
    return Sample(seconds, {"tokens_per_second": tokens / seconds})


CASES = (
    Case(
        name="sequence_update",
        claim=f"An update of a sequence policy of the default sizes and its contexts, out of {EPISODES} episodes of "
        f"{STEPS:,} steps with Ant's sizes, on one core: against a plain loop with torch's own modules, the same "
        "network, loss and batch, and all steps as tensors in memory.",
        unit="s",
        open=open_sides,
        lower_is_better=True,
        limits="gmi-drl draws in a thread on the same core, out of a mapped file that may be larger than the memory. "
        "On a CPU only; neither is compiled.",
        guard=0.4,
        floor=0.05,
    ),
)
