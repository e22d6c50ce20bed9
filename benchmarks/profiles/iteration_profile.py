"""One iteration of PPO, part by part, in float32 and in bfloat16, beside floors.

    python benchmarks/profiles/iteration_profile.py iteration_profile.txt      # also draws iteration_profile.png

Ant, 256 environments, horizon 16, one thread of one core. Both precisions run in turns; parts are means by the clock.
The matrix products of an update are timed alone, by `update_products.products`; what learning takes besides is the
rest, with the values of the rollout, which the critic computes before. The products read the same memory each time, so
the rest is at most what is told. Both precisions step the same worlds in turn.

A floor is the flops of a part divided by the flops per second of a product of 1024 x 1024, or the bytes that must be
read and written once divided by the bytes per second of a copy of 64 MiB, both measured here. Of acting it is the
policy's alone. Physics and what the task computes after it have none.
"""

import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cases.components.costs import ITERATIONS, NUM_ENV, WARM_UP, iterate
from gmi_drl.benchmarks.cases.components.update_products import products
from gmi_drl.benchmarks.cores import one_core

ROUNDS = 7
PRECISIONS = {"float32": False, "bf16": True}
PARTS = ("physics", "rest of the task", "acting", "learning: products", "learning: the rest")
COLORS = ("tab:blue", "lightskyblue", "tab:green", "tab:orange", "navajowhite")
WIDE, COPIED = 1024, 1 << 24
DPI = 130

Parts = dict[str, float]
"""Seconds of an iteration by part."""


def main() -> None:
    """Measure, print, write and draw."""
    target = Path(sys.argv[1])
    measured, floors = measure()
    target.write_text(text := table(measured, floors))
    print(text, end="")
    draw(measured, floors).savefig(target.with_suffix(".png"), dpi=DPI)


def measure() -> tuple[dict[str, Parts], dict[str, Parts]]:
    """Medians of both precisions over the rounds, and their floors."""
    from gmi_drl.tasks import make

    with one_core(), closing(make("ant", num_env=NUM_ENV)) as task:
        physics = Clocked(task._sim.step)  # type: ignore[attr-defined]
        task._sim.step = physics  # type: ignore[attr-defined]
        replicas = {name: replica_of(task, bf16) for name, bf16 in PRECISIONS.items()}
        alone = {name: products_of(replica, PRECISIONS[name]) for name, replica in replicas.items()}
        for name, replica in replicas.items():
            iterate(replica, WARM_UP)
            alone[name]()
        rounds: dict[str, list[Parts]] = {name: [] for name in replicas}
        for _ in range(ROUNDS):
            for name, replica in replicas.items():
                physics.seconds = 0.0
                phases = iterate(replica, ITERATIONS)
                of_products = mean_seconds(alone[name], ITERATIONS).value
                values = (
                    physics.seconds / ITERATIONS,
                    phases["sim_s"] - physics.seconds / ITERATIONS,
                    phases["act_s"],
                    of_products,
                    phases["learn_s"] - of_products,
                )
                rounds[name].append(dict(zip(PARTS, values, strict=True)))
        measured = {name: {part: median(one[part] for one in told) for part in PARTS} for name, told in rounds.items()}
        return measured, {name: floors_of(replica, PRECISIONS[name]) for name, replica in replicas.items()}


class Clocked:
    """A function whose seconds are summed.

    Attributes:
        seconds: Of all calls.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *given: object) -> None:
        """Call it."""
        start = time.perf_counter()
        self._function(*given)
        self.seconds += time.perf_counter() - start


def replica_of(task: Any, bf16: bool) -> Any:
    """The training of one GMI in this process."""
    import torch

    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.config.run_config import default_config
    from gmi_drl.roles.training.ppo_replica import PPOReplica

    config = default_config(task.spec)
    config = config.model_copy(update={"learner": config.learner.model_copy(update={"bf16": bf16})})
    replica = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    replica.attach_task(task, seed=0)
    return replica


def products_of(replica: Any, bf16: bool) -> Callable[[], None]:
    """The products of all mini-batches of an update."""
    policy, learner = replica.learner.agent.policy, replica.config.learner
    rows = learner.horizon * NUM_ENV // learner.minibatches
    return products(policy, rows, learner.epochs * learner.minibatches, bf16=bf16)


def floors_of(replica: Any, bf16: bool) -> Parts:
    """The least seconds of acting, of the products and of the rest of learning."""
    import torch

    policy, learner = replica.learner.agent.policy, replica.config.learner
    networks = (policy.actor, policy.critic)
    actor, critic = ([one for one in net.modules() if isinstance(one, torch.nn.Linear)] for net in networks)
    wide = torch.randn(WIDE, WIDE, dtype=torch.bfloat16 if bf16 else torch.float32)
    flops_per_s = 2 * WIDE**3 / seconds_of(partial(torch.mm, wide, wide))
    copied = torch.ones(COPIED), torch.ones(COPIED)
    bytes_per_s = 8 * COPIED / seconds_of(partial(copied[0].copy_, copied[1]))
    samples = learner.horizon * NUM_ENV
    acting, judging = (samples * sum(2 * one.weight.numel() for one in net) for net in (actor, critic))
    first = samples * 2 * (actor[0].weight.numel() + critic[0].weight.numel())  # no gradient of the observations
    updating = learner.epochs * (3 * (acting + judging) - first)
    hidden = sum(one.out_features for net in (actor, critic) for one in net[:-1])
    item, numbers = (2 if bf16 else 4), policy.observation.size + 2 * policy.distribution.action.params
    # the activation in place, its slope times the gradient; samples; Adam reads four vectors and writes three
    moved = learner.epochs * samples * (5 * item * hidden + 4 * numbers)
    moved += 7 * 4 * learner.epochs * learner.minibatches * replica.learner.updater.flat.size
    seconds = (acting / flops_per_s, updating / flops_per_s, judging / flops_per_s + moved / bytes_per_s)
    return dict(zip(PARTS[2:], seconds, strict=True))


def seconds_of(call: Callable[[], object], times: int = 20) -> float:
    """The least seconds of a call."""
    call()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def table(measured: dict[str, Parts], floors: dict[str, Parts]) -> str:
    """Milliseconds by part, and their floors."""
    lines = [f"{'ms of an iteration':<22}" + "".join(f"{name:>10}{'floor':>8}" for name in measured)]
    for part in (*PARTS, "all"):
        line = f"{part:<22}"
        for name, parts in measured.items():
            value = sum(parts.values()) if part == "all" else parts[part]
            floor = floors[name].get(part)
            line += f"{1000 * value:>10.1f}" + (f"{1000 * floor:>8.1f}" if floor is not None else f"{'':>8}")
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def draw(measured: dict[str, Parts], floors: dict[str, Parts]) -> Any:
    """Draw a bar for each precision, and under each part the part that is its floor."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6), layout="constrained")
    axis = figure.subplots()
    for row, (name, parts) in enumerate(measured.items()):
        left = 0.0
        for (part, seconds), color in zip(parts.items(), COLORS, strict=True):
            width, floor = 1000 * seconds, 1000 * floors[name].get(part, 0.0)
            axis.barh(row, width, 0.6, left=left, color=color, edgecolor="white", label=None if row else part)
            axis.barh(row + 0.38, floor, 0.12, left=left, color="black")
            if width > 12:
                axis.text(left + width / 2, row, f"{width:.0f}", ha="center", va="center", fontsize=8)
            left += width
    axis.barh(0, 0, color="black", label="floor")
    axis.set_yticks(range(len(measured)), list(measured))
    axis.invert_yaxis()
    axis.set_xlabel("ms of an iteration: Ant, 256 environments, horizon 16, one thread")
    axis.legend(fontsize=7, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


if __name__ == "__main__":
    main()
