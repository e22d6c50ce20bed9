"""Roles that share a GMI against roles that have GMIs of their own: Tables 4 and 5 of the paper, run on two cores."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import harmonic_mean, median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.two_cores import on_two_cores
from gmi_drl.benchmarks.cases.learning import learning
from gmi_drl.benchmarks.cases.paper.paper_model import Model, beside, message_bandwidth
from gmi_drl.run.phases import PHASE_NAMES

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder

TOTAL = 512
"""Environments in all, of every side."""

ITERATIONS, QUICK_ITERATIONS = 30, 4
SIMULATOR = ("simulator",)

WARM_UP = 2
"""Iterations that are not timed."""

STEPS, QUICK_STEPS = 600, 20
"""Control steps of every world in serving."""


def training_layouts() -> "Mapping[str, Layout]":
    """The same environments and cores. A simulator works while agent and trainer wait, so they share its core."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG_EX, TDG_EX

    return {
        "TCG_EX, 2 GMIs": on_two_cores(TCG_EX, Cut(2, TOTAL // 2)),
        "TDG_EX, 1 simulator": on_two_cores(TDG_EX, Cut(3, TOTAL, share_cores=True)),
        "TDG_EX, 2 simulators": on_two_cores(TDG_EX, Cut(4, TOTAL // 2, share_cores=True)),
    }


def serving_layouts() -> "Mapping[str, Layout]":
    """The same for serving: with two simulators the agent shares the core of one."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG, TDG

    return {
        "TCG, 2 GMIs": on_two_cores(TCG, Cut(2, TOTAL // 2)),
        "TDG, 1 simulator": on_two_cores(TDG, Cut(2, TOTAL)),
        "TDG, 2 simulators": on_two_cores(TDG, Cut(3, TOTAL // 2, share_cores=True)),
    }


@contextmanager
def open_training(quick: bool) -> Iterator[Sides]:
    """Each sample is a training of its own, whose start is not timed."""
    from gmi_drl.workload import TASK_SPECS

    config, numbers = configured(QUICK_ITERATIONS if quick else ITERATIONS), count()
    with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:

        def side(layout: "Layout") -> Sample:
            return train(layout, config, Path(folder) / str(next(numbers)))

        layouts, learner = training_layouts(), config.learner
        sums = learner.epochs * learner.minibatches
        model = _model(learner.horizon, M_p=learner.bucket_bytes(TASK_SPECS["ant"]), sums=sums)
        yield beside({name: partial(side, layout) for name, layout in layouts.items()}, _simulators(layouts), model)


@contextmanager
def open_serving(quick: bool) -> Iterator[Sides]:
    """All serve the first policy of a training; starting is not timed."""
    from gmi_drl.run.folder import RunFolder

    layouts = serving_layouts()
    with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
        run = RunFolder(Path(folder) / "run", stays=False)
        first = next(iter(training_layouts().values()))
        learning.train(first, configured(iterations=1), run)
        steps = QUICK_STEPS if quick else STEPS
        sides = {name: partial(serve, layout, run, steps) for name, layout in layouts.items()}
        yield beside(sides, _simulators(layouts), _model(steps))


def _model(m: int, **learns: int) -> Model:
    from gmi_drl.workload import TASK_SPECS

    ant = TASK_SPECS["ant"]
    return Model(ant.num_obs, ant.num_actions, TOTAL, m, message_bandwidth(), **learns)


def _simulators(layouts: "Mapping[str, Layout]") -> dict[str, int]:
    """GMIs that only simulate, of each."""
    return {name: sum(gmi.roles == SIMULATOR for gmi in layout.gmis) for name, layout in layouts.items()}


def configured(iterations: int) -> "RunConfig":
    """How Ant is trained by default, so many iterations long, without checkpoints within."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    more = {"iterations": iterations, "checkpoint_every": iterations}
    return default_config(TASK_SPECS["ant"]).model_copy(update=more)


def train(layout: "Layout", config: "RunConfig", folder: Path) -> Sample:
    """Steps per second of the iterations after the warm-up, which have as many steps each, and where they go.

    These are medians of the paper's T_s, T_a and T_t, and of waiting. Where roles are apart the times are of the GMIs
    that do them, and waiting (`sync_s`) is what borders cost.
    """
    from gmi_drl.run.folder import RunFolder

    rows = learning.train(layout, config, RunFolder(folder, stays=False))[WARM_UP:]
    phases = {name: median(row[name] for row in rows) for name in PHASE_NAMES}
    return Sample(harmonic_mean([row["steps_per_second"] for row in rows]), {**shape(layout), **phases})


def serve(layout: "Layout", run: "RunFolder", steps: int) -> Sample:
    """Steps per second of all worlds, and the seconds of all steps by what they went into, means over who tells."""
    from gmi_drl.launch.serving import serve as launch

    served = launch(layout, run, steps=steps)
    if served.signal is not None:
        raise SystemExit(128 + served.signal)
    told = served.gmis.values()
    phases = {name: sum(getattr(gmi, name) for gmi in told) / len(told) for name in ("sim_s", "act_s", "sync_s")}
    return Sample(served.steps_per_second, {**shape(layout), **phases})


def shape(layout: "Layout") -> dict[str, int]:
    """How many GMIs and environments it has."""
    return {"gmis": len(layout.gmis), "num_env": layout.num_env}


LIMITS = (
    "`paper_foretells` is the paper's equation with the times of the colocated side when it ran last; `held_foretells` "
    "the same with cores that GMIs hold all the time, as they do, where the paper's R counts a role's share only while "
    "it works. Errors are of these to what was measured; that of the colocated side itself only says that its times "
    "are all there. "
    "On cores, where memory is shared: a message is two copies. The paper's ratios are of A100s, whose GMIs exchange "
    "data by the host. With one simulator half of the cores wait by construction; with two, which take turns on them "
    "with the others, they do not."
)

CASES = (
    Case(
        name="tcg_against_tdg",
        claim=f"Serving a policy in {TOTAL} Ants on two cores: simulator and agent share each GMI (TCG), against GMIs "
        "of their own (TDG).",
        unit="steps/s",
        open=open_serving,
        obstacle=partial(requirements.simulation_on_cores, 2),
        reference="Table 4 of the paper: TCG about 2.5x TDG",
        limits=LIMITS,
    ),
    Case(
        name="tcg_ex_against_tdg_ex",
        claim=f"Training {TOTAL} Ants by PPO on two cores: all roles share each GMI (TCG_EX), against GMIs of their "
        "own (TDG_EX).",
        unit="steps/s",
        open=open_training,
        obstacle=partial(requirements.simulation_on_cores, 2),
        reference="Table 5 of the paper: TCG_EX about 5x TDG_EX",
        limits=LIMITS,
    ),
)
