"""Returns of PPO on gymnasium's tasks by the adapter, against Stable-Baselines3 after the same number of steps."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.learning import late_returns, learning
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig

PEER, DRIVER = "sb3", "returns_sb3"
STEPS, QUICK_STEPS = 300_000, 8192
SAMPLES = 2048
NUM_ENV = 8  # in one process, on both sides
PEER_SECONDS = 1800.0


def opener(env_id: str) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of both sides. Each sample is a training of the same number of steps; seeds are 1, 2, 3 and so on."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        steps = QUICK_STEPS if quick else STEPS
        our_seeds, their_seeds = count(1), count(1)
        with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
            yield {
                "gmi-drl": lambda: train_ours(env_id, steps, next(our_seeds), Path(folder)),
                "sb3": lambda: train_theirs(env_id, steps, next(their_seeds)),
            }

    return open_sides


def our_config() -> "RunConfig":
    """Networks, batches and hyper-parameters of Stable-Baselines3, as far as gmi-drl has them."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.run_config import RunConfig

    learner = PPOConfig(
        hidden=(64, 64),
        activation="tanh",
        horizon=SAMPLES // NUM_ENV,
        epochs=10,
        minibatches=SAMPLES // 64,
        learning_rate=3e-4,
        schedule="fixed",
        value_loss_coef=0.5,
        clip_value_loss=False,
        max_grad_norm=0.5,
        init_std=1.0,
        reward_scale=0.1,
    )
    return RunConfig(learner=learner)


def train_ours(env_id: str, steps: int, seed: int, folder: Path) -> Sample:
    """One training by the adapter, with one GMI on one core."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.hardware.node import Cpu, Node
    from gmi_drl.launch.task_info import task_spec
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.scheduler.plan import plan

    one_core = Cpu(cores=1, memory_gib=this_node().cpu.memory_gib)  # Stable-Baselines3 has one thread, too
    node = Node(name="one core", cpu=one_core)
    layout = plan(task_spec(f"gymnasium:{env_id}"), node, num_env=NUM_ENV, gmis_per_gpu=1)
    config = our_config().model_copy(update={"seed": seed, "iterations": math.ceil(steps / SAMPLES)})
    return late_returns.of_rows(seed, learning.train(layout, config, RunFolder(folder / str(seed), stays=False)))


def train_theirs(env_id: str, steps: int, seed: int) -> Sample:
    """One training by Stable-Baselines3."""
    more = ["--env-id", env_id, "--env-steps", str(steps), "--seed", str(seed)]
    updates = peers.train(PEER, num_env=NUM_ENV, threads=1, seconds=PEER_SECONDS, driver=DRIVER, more=more)
    reached = updates[-1].env_steps if updates else 0
    if reached < steps:
        raise GmiError(f"{PEER} did only {reached} of {steps} steps in {PEER_SECONDS:.0f} s")
    return late_returns.of_updates(seed, updates)


def _obstacle() -> str | None:
    lacks = requirements.package("mujoco", "mujoco") or requirements.package("gymnasium", "gymnasium")
    return lacks or peers.obstacle(PEER, DRIVER)


def case(name: str, env_id: str) -> Case:
    """The case of one of gymnasium's tasks."""
    return Case(
        name=name,
        claim=f"PPO on gymnasium's {env_id}, {STEPS} steps from scratch: the mean return of the episodes that ended in "
        "the last 10 % of the steps, by gmi-drl with its adapter and by Stable-Baselines3 as its users run it (its "
        "default hyper-parameters, normalised observations and rewards), 8 environments, the same networks and 2048 "
        "samples an update on both sides.",
        unit="return",
        open=opener(env_id),
        obstacle=_obstacle,
        limits="Returns of a few seeds. By default an update of Stable-Baselines3 has 2048 steps of each environment. "
        "The two differ in many points: Stable-Baselines3 divides rewards by the running deviation of the "
        "return and clips them at 10 (gmi-drl divides by 10), normalises observations from the first step and clips "
        "them at 10 deviations (gmi-drl after the first update, without clipping), normalises advantages in each "
        "mini-batch (all of an update at once), draws new mini-batches for each epoch (the same for all) and clips the "
        "gradients of both networks together (each apart); the epsilon of its Adam is 1e-5 (1e-8).",
        compared=False,
        repeats=3,
    )


CASES = (case("returns_half_cheetah", "HalfCheetah-v5"), case("returns_ant_v5", "Ant-v5"))
