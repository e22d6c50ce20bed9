"""One PPO update beside its matrix products alone, which are the floor of its time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common.random_rollout import random_rollout
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core

if TYPE_CHECKING:
    from gmi_drl.algo.networks import ActorCritic

TASK, HORIZON, NUM_ENV = "mujoco:Ant-v5", 2, 512
"""A GMI's part of an update of the case `ppo_ant_v5`, at its best number of environments on two cores."""

UPDATES, QUICK_UPDATES = 10, 1


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Both sides, after an update."""
    import torch

    from gmi_drl.algo.networks import ActorCritic
    from gmi_drl.algo.ppo import PPO
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.launch.task_info import task_spec

    config, updates = PPOConfig(), QUICK_UPDATES if quick else UPDATES
    with one_core():
        torch.manual_seed(0)
        spec = task_spec(TASK)
        policy = ActorCritic(spec, init_std=1.0)
        ours = PPO(policy, config)
        rollout, samples = random_rollout(spec, HORIZON, NUM_ENV), HORIZON * NUM_ENV

        def update() -> None:
            ours.update(rollout, torch.randperm(samples))
            ours.metrics()

        alone = products(policy, samples // config.minibatches, config.epochs * config.minibatches)
        sides: dict[str, Callable[[], object]] = {"gmi-drl": update, "its matrix products": alone}
        for warm_up in sides.values():
            warm_up()
        yield {name: partial(mean_seconds, side, updates) for name, side in sides.items()}


def products(policy: "ActorCritic", batch: int, count: int, *, bf16: bool = False) -> Callable[[], None]:
    """The products of `count` mini-batches, forward and backward, into memory that is there already.

    Args:
        policy: Its weights are read.
        batch: Rows of a mini-batch.
        count: Of mini-batches.
        bf16: Whether all layers but the last are in bfloat16.
    """
    import torch
    from torch import nn

    networks = [[one for one in net.modules() if isinstance(one, nn.Linear)] for net in (policy.actor, policy.critic)]
    inner = torch.bfloat16 if bf16 else torch.float32
    types = {one: torch.float32 if one is layers[-1] else inner for layers in networks for one in layers}
    weights = {one: (one.weight.detach().to(kind), one.bias.detach().to(kind)) for one, kind in types.items()}
    gradients = {one: torch.empty_like(weight) for one, (weight, _) in weights.items()}
    sizes = {(size, kind) for one, kind in types.items() for size in one.weight.shape}
    read = {(size, kind): torch.randn(batch, size).to(kind) for size, kind in sizes}
    written = {key: torch.empty_like(rows) for key, rows in read.items()}

    def multiply_all() -> None:
        with torch.no_grad():
            for _, layers in product(range(count), networks):
                for one in layers:
                    (weight, bias), kind = weights[one], types[one]
                    torch.addmm(bias, read[one.in_features, kind], weight.t(), out=written[one.out_features, kind])
                for one in reversed(layers):
                    (weight, _), kind = weights[one], types[one]
                    gradient = read[one.out_features, kind]
                    torch.mm(read[one.in_features, kind].t(), gradient, out=gradients[one].t())
                    if one is not layers[0]:
                        torch.mm(gradient, weight, out=written[one.in_features, kind])

    return multiply_all


CASE = Case(
    name="ppo_update_products",
    claim="One PPO update on 1 thread (4 epochs of 4 mini-batches of 256, a GMI's part of an update of `ppo_ant_v5`) "
    "against its matrix products alone, forward and backward, of the same shapes and strides: the floor of an update "
    "in float32.",
    unit="s",
    open=open_sides,
    lower_is_better=True,
    limits="On a CPU only. The products read and write the same memory each time, so more of it is in caches.",
    repeats=15,
)
