"""The paper's Tables 4 and 5 on two cores: roles that share GMIs, against roles with GMIs of their own."""

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
from gmi_drl.benchmarks.cases.paper.paper_model import Model, message_bandwidth, with_predictions
from gmi_drl.run.phases import PHASE_NAMES

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder

TOTAL = 512
"""Environments in all, of every side."""

ITERATIONS, QUICK_ITERATIONS = 30, 4
SIMULATOR = ("simulator",)
WARM_UP = 2  # iterations that are not timed

STEPS, QUICK_STEPS = 600, 20
"""Control steps of every environment in serving."""


def training_layouts() -> "Mapping[str, Layout]":
    """Layouts with the same environments and cores.

    Agent and trainer wait while a simulator works, and so share its core.
    """
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG_EX, TDG_EX

    return {
        "TCG_EX, 2 GMIs": on_two_cores(TCG_EX, Cut(2, TOTAL // 2)),
        "TDG_EX, 1 simulator": on_two_cores(TDG_EX, Cut(3, TOTAL, share_cores=True)),
        "TDG_EX, 2 simulators": on_two_cores(TDG_EX, Cut(4, TOTAL // 2, share_cores=True)),
    }


def serving_layouts() -> "Mapping[str, Layout]":
    """The same for serving: with two simulators the agent shares the core of one of them."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG, TDG

    return {
        "TCG, 2 GMIs": on_two_cores(TCG, Cut(2, TOTAL // 2)),
        "TDG, 1 simulator": on_two_cores(TDG, Cut(2, TOTAL)),
        "TDG, 2 simulators": on_two_cores(TDG, Cut(3, TOTAL // 2, share_cores=True)),
    }


@contextmanager
def open_training(quick: bool) -> Iterator[Sides]:
    """Sides of which each sample is a new training. The start is not timed."""
    from gmi_drl.workload import TASK_SPECS

    config, numbers = configured(QUICK_ITERATIONS if quick else ITERATIONS), count()
    with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:

        def side(layout: "Layout") -> Sample:
            return train(layout, config, Path(folder) / str(next(numbers)))

        layouts, learner = training_layouts(), config.learner
        sums = learner.epochs * learner.minibatches
        model = _model(learner.horizon, M_p=learner.bucket_bytes(TASK_SPECS["ant"]), sums=sums)
        sides = {name: partial(side, layout) for name, layout in layouts.items()}
        yield with_predictions(sides, _simulators(layouts), model)


@contextmanager
def open_serving(quick: bool) -> Iterator[Sides]:
    """Sides that serve the first policy of a training. The start is not timed."""
    from gmi_drl.run.folder import RunFolder

    layouts = serving_layouts()
    with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
        run = RunFolder(Path(folder) / "run", stays=False)
        first = next(iter(training_layouts().values()))
        learning.train(first, configured(iterations=1), run)
        steps = QUICK_STEPS if quick else STEPS
        sides = {name: partial(serve, layout, run, steps) for name, layout in layouts.items()}
        yield with_predictions(sides, _simulators(layouts), _model(steps))


def _model(m: int, **learns: int) -> Model:
    from gmi_drl.workload import TASK_SPECS

    ant = TASK_SPECS["ant"]
    return Model(ant.observation.size, ant.action.size, TOTAL, m, message_bandwidth(), **learns)


def _simulators(layouts: "Mapping[str, Layout]") -> dict[str, int]:
    """The number of GMIs that only simulate, by layout."""
    return {name: sum(gmi.roles == SIMULATOR for gmi in layout.gmis) for name, layout in layouts.items()}


def configured(iterations: int) -> "RunConfig":
    """Ant's default configuration with `iterations` iterations and a checkpoint only at the end."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    more = {"iterations": iterations, "checkpoint_every": iterations}
    return default_config(TASK_SPECS["ant"]).model_copy(update=more)


def train(layout: "Layout", config: "RunConfig", folder: Path) -> Sample:
    """Train. The value is the steps per second after the warm-up; details have the seconds of the phases.

    The phases are medians of the paper's T_s, T_a and T_t, and of waiting. If roles have GMIs of their own, each time
    is that of the GMIs with this role, and waiting (`sync_s`) is the cost of the exchange between them.
    """
    from gmi_drl.run.folder import RunFolder

    rows = learning.train(layout, config, RunFolder(folder, stays=False))[WARM_UP:]
    phases = {name: median(row[name] for row in rows) for name in PHASE_NAMES}
    return Sample(harmonic_mean([row["steps_per_second"] for row in rows]), {**shape(layout), **phases})


def serve(layout: "Layout", run: "RunFolder", steps: int) -> Sample:
    """Serve. The value is the steps per second of all environments; details have seconds by phase, means over GMIs."""
    from gmi_drl.launch.serving import serve as launch

    served = launch(layout, run, steps=steps)
    if served.signal is not None:
        raise SystemExit(128 + served.signal)
    gmis = served.gmis.values()
    phases = {name: sum(getattr(gmi, name) for gmi in gmis) / len(gmis) for name in ("sim_s", "act_s", "sync_s")}
    return Sample(served.steps_per_second, {**shape(layout), **phases})


def shape(layout: "Layout") -> dict[str, int]:
    """The numbers of GMIs and environments of a layout."""
    return {"gmis": len(layout.gmis), "num_env": layout.num_env}


LIMITS = (
    "`paper_foretells` is the prediction of the paper's equation from the times of the colocated side when it last "
    "ran. `held_foretells` is the same with cores that GMIs hold all the time, as ours do, while the paper's R counts "
    "a role's share only while it works. Errors are predictions relative to the measurement; the error of the "
    "colocated side only shows that its times are complete. On cores memory is shared, and a message is two copies. "
    "The paper's ratios are for A100s, whose GMIs exchange data through the host. With one simulator half of the cores "
    "wait by construction; with two, which share the cores with the other roles, they do not."
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
