"""There and back through the convolutions of a game's images, against the same layers as torch makes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core
from gmi_drl.workload.spaces import categorical, image

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

BATCH, QUICK_BATCH = 256, 16
CALLS = 3
SHAPE, CHOICES = (4, 84, 84), 6


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """All sides with the same images, after one call each."""
    import torch

    from gmi_drl.algo.networks import ActorCritic
    from gmi_drl.algo.ppo import PPO
    from gmi_drl.algo.rollout import MiniBatch
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.workload import TASK_SPECS

    with one_core():
        torch.manual_seed(0)
        size = QUICK_BATCH if quick else BATCH
        images, zeros = torch.randint(0, 256, (size, *SHAPE), dtype=torch.uint8), torch.zeros(size)
        spec = replace(TASK_SPECS["ant"], observation=image(*SHAPE), action=categorical(CHOICES), hidden=())
        config = PPOConfig.for_task(spec)
        ppo = PPO(ActorCritic(spec, config.network), config)
        numbers = (zeros[:, None], zeros, zeros.new_zeros(size, CHOICES), zeros, zeros + 1, zeros + 1, zeros + 1)
        sides: dict[str, Callable[[], object]] = {
            "gmi-drl": partial(ppo._compute_gradient, MiniBatch(images, *numbers)),
            "torch, NHWC": partial(there_and_back, torch_layers(torch.channels_last), images, torch.channels_last),
            "torch, NCHW": partial(
                there_and_back, torch_layers(torch.contiguous_format), images, torch.contiguous_format
            ),
        }
        for warm_up in sides.values():
            warm_up()
        yield {name: partial(mean_seconds, side, 1 if quick else CALLS) for name, side in sides.items()}


def torch_layers(memory_format: "torch.memory_format") -> "nn.Module":
    """The same layers with weights of their own."""
    from torch import nn

    relu = partial(nn.ReLU, inplace=True)
    convs = (nn.Conv2d(4, 32, 8, 4), relu(), nn.Conv2d(32, 64, 4, 2), relu(), nn.Conv2d(64, 64, 3, 1), relu())
    layers = nn.Sequential(*convs, nn.Flatten(), nn.Linear(64 * 7 * 7, 512), relu(), nn.Linear(512, CHOICES + 1))
    return layers.to(memory_format=memory_format)  # type: ignore[call-overload,no-any-return]


def there_and_back(layers: "nn.Module", images: "Tensor", memory_format: "torch.memory_format") -> None:
    """Gradients of a loss without cost."""
    import torch

    layers.zero_grad(set_to_none=False)
    pixels = images.to(torch.float32, memory_format=memory_format).mul_(1 / 255)
    layers(pixels).square().mean().backward()


CASE = Case(
    name="nature_network",
    claim=f"A gradient of PPO over {BATCH} images of 84 x 84 x 4 through the convolutions of Mnih et al. on 1 thread, "
    "against the same layers by torch with a loss that costs nothing, in both memory formats.",
    unit="s",
    open=open_sides,
    lower_is_better=True,
    limits="On a CPU only. Ours has PPO's loss and the metrics besides.",
    repeats=9,
)
