"""Whether A3C with V-trace learns, compared with synchronous PPO on the same cores, and the cost of old policies."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks.case import CURVES, Case, Sample, Sides
from gmi_drl.benchmarks.cases.common.decoupled_run import layout_of, obstacle, run, seeds
from gmi_drl.benchmarks.cases.learning.learning import REWARD, SECONDS, STEPS

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout

TASK = "ant"
NUM_ENV = 256
TRAINED_S, QUICK_S = 150.0, 5.0
TENTH = 10
LAGS = (0, 2, 8)

Trained = Mapping[str, "tuple[Layout, RunConfig]"]


def against_ppo() -> "Trained":
    """Asynchronous and synchronous trainings with their default settings."""
    from gmi_drl.benchmarks.cases.sharing import gmis_against_solo
    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    a3c, ppo = (default_config(TASK_SPECS[TASK], kind) for kind in ("a3c", "ppo"))
    return {
        "A3C, 1 agent and 1 trainer": (layout_of(TASK, NUM_ENV), a3c),
        "A3C, 2 agents and 1 trainer on 2 cores": (layout_of(TASK, NUM_ENV, gmis=3), a3c),
        "PPO, 2 GMIs": (gmis_against_solo.layouts()[gmis_against_solo.OURS], ppo),
    }


def by_lag() -> "Trained":
    """One training for each `max_lag`, the default first.

    Two agents collect more than one trainer takes, so all buffers fill, and the lag becomes as large as it may.
    """
    from gmi_drl.config.run_config import default_config
    from gmi_drl.layout.channels import Channels
    from gmi_drl.workload import TASK_SPECS

    a3c, usual = default_config(TASK_SPECS[TASK], "a3c"), Channels().max_lag
    lags = sorted(LAGS, key=lambda lag: lag != usual)
    return {f"max_lag {lag}": (layout_of(TASK, NUM_ENV, gmis=3, channels=Channels(max_lag=lag)), a3c) for lag in lags}


def opener(trained: "Callable[[], Trained]") -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of these sides. Each uses the seeds 1, 2, 3 and so on."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        seconds = QUICK_S if quick else TRAINED_S
        sides = ((name, layout, config, seeds()) for name, (layout, config) in trained().items())
        yield {name: partial(learn, layout, config, seconds, given) for name, layout, config, given in sides}

    return open_sides


def learn(layout: "Layout", config: "RunConfig", seconds: float, given: Iterator[int]) -> Sample:
    """Train with the next seed. The value is the mean reward of a step in the last tenth of the time."""
    seed = next(given)
    rows = run(layout, config.model_copy(update={"seed": seed}), seconds)
    began_s = rows[0][0]
    first = [row["reward_mean"] for when_s, row in rows if when_s - began_s <= seconds / TENTH]
    last = [row["reward_mean"] for when_s, row in rows if when_s - began_s >= seconds * (1 - 1 / TENTH)]
    curves = {
        STEPS: [row["env_steps"] for _, row in rows],
        SECONDS: [round(when_s - began_s, 3) for when_s, _ in rows],
        REWARD: [round(row["reward_mean"], 4) for _, row in rows],
    }
    lags: dict[str, Any] = {}
    if "lag_mean" in rows[-1][1]:
        lags = {
            "lag_mean": fmean(row["lag_mean"] for _, row in rows),
            "lag_max": max(row["lag_max"] for _, row in rows),
        }
    details = {"seed": seed, "first_tenth": fmean(first), "env_steps": rows[-1][1]["env_steps"], **lags, CURVES: curves}
    return Sample(fmean(last or [rows[-1][1]["reward_mean"]]), details)


CASES = (
    Case(
        name="learning_a3c",
        claim=f"{TASK} by A3C with V-trace for {TRAINED_S:.0f} s on two cores, {NUM_ENV} environments of each agent, "
        "and by synchronous PPO on the same cores: the mean reward of a step in the last tenth of the time.",
        unit="reward",
        open=opener(against_ppo),
        obstacle=obstacle,
        limits="On two cores the trainer has half of the machine, but learning takes a small part of its time. The "
        "hyper-parameters of both were chosen on seed 0.",
        repeats=3,
    ),
    Case(
        name="learning_lag",
        claim="The same with two agents and one trainer, for several `max_lag`: by how many versions the policy that "
        "acted may be older than the policy that learns.",
        unit="reward",
        open=opener(by_lag),
        obstacle=obstacle,
        limits="Three GMIs share two cores. With max_lag 0 agents and the trainer wait for each other.",
        repeats=3,
    ),
)
