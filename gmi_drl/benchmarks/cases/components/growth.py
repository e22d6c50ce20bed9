"""How times grow with sizes: a sample has the time at each size, and its value is the exponent of a power law."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.growing import side
from gmi_drl.benchmarks.cases.common.random_rollout import random_rollout
from gmi_drl.benchmarks.cases.common.two_cores import on_two_cores
from gmi_drl.benchmarks.cases.components import planning
from gmi_drl.benchmarks.cores import one_core

ENVIRONMENTS, QUICK_ENVIRONMENTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16_384), (16, 32, 64)
HORIZON = 4
WIDTHS, QUICK_WIDTHS = (64, 128, 256, 512, 1024, 2048), (16, 32, 64)
SAMPLES, MINIBATCHES = 1024, 4
GPUS, QUICK_GPUS = (10, 100, 1000, 10_000), (10, 20, 40)
CORES, GMIS, QUICK_GMIS = 2, (1, 2, 4, 8), (1, 2, 3)
GMI_ENVIRONMENTS, QUICK_GMI_ENVIRONMENTS = 256, 16
SECONDS, QUICK_SECONDS = 6.0, 1.0


@contextmanager
def open_environments(quick: bool) -> Iterator[Sides]:
    """Iterations of PPO on Ant, one at each number of environments."""
    with one_core():
        sizes = QUICK_ENVIRONMENTS if quick else ENVIRONMENTS
        iterations = {num_env: _iteration(num_env) for num_env in sizes}
        yield {"gmi-drl": side("environments", sizes, lambda num_env: _seconds(iterations[num_env]))}


def _iteration(num_env: int) -> Callable[[], object]:
    """An iteration as a GMI without others has it, warmed up."""
    import torch

    from gmi_drl import tasks
    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.config.run_config import default_config
    from gmi_drl.roles.training.iteration_stats import Decision
    from gmi_drl.roles.training.ppo_replica import PPOReplica

    task, device = tasks.make("ant", num_env=num_env, seed=1, threads=1), torch.device("cpu")
    config = default_config(task.spec)
    config = config.model_copy(update={"learner": config.learner.model_copy(update={"horizon": HORIZON})})
    replica = PPOReplica(task.spec, config, NoReduction(device=device), sample_share=1.0, device=device, seed=1)
    replica.attach_task(task, 1)

    def iterate() -> None:
        replica.iterate(lambda: Decision.GO_ON)

    iterate()
    return iterate


@contextmanager
def open_parameters(quick: bool) -> Iterator[Sides]:
    """Updates of PPO by the same experience, of networks with two layers of each width."""
    with one_core():
        updates = dict(_update(width) for width in (QUICK_WIDTHS if quick else WIDTHS))
        yield {"gmi-drl": side("parameters", list(updates), lambda count: _seconds(updates[count]))}


def _update(width: int) -> tuple[int, Callable[[], object]]:
    """The parameters of a policy, and an update of it, warmed up."""
    import torch

    from gmi_drl.algo.networks import ActorCritic
    from gmi_drl.algo.ppo import PPO
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.workload import TASK_SPECS
    from gmi_drl.workload.network_sizes import NetworkSettings

    torch.manual_seed(0)
    spec = TASK_SPECS["ant"]
    policy = ActorCritic(spec, NetworkSettings((width, width)))
    ppo = PPO(policy, PPOConfig(epochs=1, minibatches=MINIBATCHES))
    rollout, order = random_rollout(spec, 1, SAMPLES), torch.arange(SAMPLES)

    def update() -> None:
        ppo.update(rollout, order)

    update()
    return sum(parameter.numel() for parameter in policy.parameters()), update


@contextmanager
def open_plans(quick: bool) -> Iterator[Sides]:
    """Plans of equal GPUs from a profile."""
    with tempfile.TemporaryDirectory(prefix="gmi-drl-growth-") as name:
        folder = Path(name)
        (folder / "alike.json").write_text(json.dumps(planning.profile("")))

        def plan(gpus: int) -> float:
            (folder / "alike.yaml").write_text(json.dumps(planning.alike(gpus)))  # JSON is YAML, too
            return planning.plan_once(folder, gpus)

        yield {"gmi-drl": side("GPUs", QUICK_GPUS if quick else GPUS, plan)}


@contextmanager
def open_gmis(quick: bool) -> Iterator[Sides]:
    """Trainings of Ant by GMIs with as many environments each, which share two cores where there are more."""
    from gmi_drl.benchmarks.cases.common.sessions import of_layouts
    from gmi_drl.config.run_config import default_config
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG_EX
    from gmi_drl.workload import TASK_SPECS

    config, num_env = default_config(TASK_SPECS["ant"]), QUICK_GMI_ENVIRONMENTS if quick else GMI_ENVIRONMENTS
    gmis, horizon = (QUICK_GMIS if quick else GMIS), config.learner.horizon
    layouts = {count: on_two_cores(TCG_EX, Cut(count, num_env, share_cores=count > CORES)) for count in gmis}
    with of_layouts(layouts, config) as sessions:

        def iteration(count: int) -> float:
            measured = sessions[count].measure(num_env, QUICK_SECONDS if quick else SECONDS)
            return count * num_env * horizon / measured.steps_per_second

        yield {"gmi-drl": side("GMIs", gmis, iteration)}


def _seconds(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def _case(
    name: str, claim: str, opened: Callable[[bool], AbstractContextManager[Sides]], limits: str = "", cores: int = 1
) -> Case:
    return Case(
        name=f"growth_{name}",
        claim=f"{claim} 1 is growth in proportion.",
        unit="exponent",
        open=opened,
        lower_is_better=True,
        obstacle=lambda: requirements.simulation_on_cores(cores),
        limits=limits,
        compared=False,
    )


CASES = (
    _case(
        "environments",
        f"How the processor time of an iteration of PPO on Ant grows with 128 to 16,384 environments of {HORIZON} "
        "steps, on one core.",
        open_environments,
    ),
    _case(
        "parameters",
        f"How the processor time of an update of PPO with {SAMPLES} samples grows with 10^4 to 10^7 parameters, on one "
        "core.",
        open_parameters,
    ),
    _case(
        "plans",
        "How the time of a plan from a profile grows with 10 to 10,000 GPUs.",
        open_plans,
        "The profile is invented and has four points.",
    ),
    _case(
        "gmis",
        f"How the time of an iteration of PPO on Ant grows with 1 to 8 GMIs of {GMI_ENVIRONMENTS} environments each on "
        "the same two cores; a single GMI has a thread on each.",
        open_gmis,
        cores=CORES,
    ),
)
