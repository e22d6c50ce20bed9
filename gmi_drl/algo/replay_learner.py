"""The base of learners from replay: gradients of a sampled batch in one flat bucket, summed over the group."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from gmi_drl.algo.adam import Adam
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.config.learners import OffPolicyConfig
from gmi_drl.cuda_graph import Captured
from gmi_drl.replay.ring import RingBatch
from gmi_drl.replay.rows import Rows

Config = TypeVar("Config", bound=OffPolicyConfig)

NEXT_OBS = "next/obs"


class ReplayLearner(Generic[Config]):
    """Updates an agent from batches of a ring; the learners of a group stay equal. A subclass defines the losses.

    An update has one reduction, and does not wait for the device. If gradients are not finite, it changes nothing.

    Args:
        agent: Trained in place.
        parts: Lengths of the parts of the parameters that have an Adam of their own, in order.
        config: Hyper-parameters.
        batch: Steps that this GMI draws for an update.
        reduce: Sums a float32 vector in place over the group; does nothing in a group of one.
        make_bucket: Allocates memory on the device that `reduce` reads with the fewest copies.
        generator: Of the noise of updates, on the device; None if the losses need none.
        cuda_graphs: Whether the work before and after each `reduce` is one CUDA graph each, on a GPU.

    Attributes:
        share: Weight of this GMI's mean in the mean over the group, `[]`.
        errors: Of the last batch, float32 `[batch]`: how far values were from what they should be.
        steps: Control steps of all environments before this iteration.
        updates: How many there were.
    """

    METRICS: ClassVar[tuple[str, ...]]
    """Metrics of an update, in the order of the bucket's tail."""

    def __init__(
        self,
        agent: ReplayAgent,
        parts: list[int],
        config: Config,
        *,
        batch: int,
        reduce: Callable[[Tensor], None] = lambda bucket: None,
        make_bucket: Callable[[int], Tensor] | None = None,
        generator: torch.Generator | None = None,
        cuda_graphs: bool = True,
    ) -> None:
        self.agent, self.config, self.reduce = agent, config, reduce
        self.generator, self._cuda_graphs = generator, cuda_graphs
        parameters = agent.policy.parameters_in_order()
        self.device = device = parameters[0].device
        make_bucket = make_bucket or partial(torch.zeros, device=device)
        self.flat = FlatParameters(parameters, tail=len(self.METRICS), make_bucket=make_bucket)
        self.learning_rate = torch.tensor(config.learning_rate, device=device)
        self.found_inf = torch.zeros((), device=device)
        self.adams = [
            Adam(vector, gradient, self.learning_rate, self.found_inf)
            for vector, gradient in zip(
                torch.split(self.flat.vector, parts), torch.split(self.flat.gradient, parts), strict=True
            )
        ]
        self.share = torch.ones((), device=device)
        self.resize(batch)
        self.totals = torch.zeros(len(self.METRICS) + 1, device=device)
        self.steps = self.updates = 0
        self.done = 0
        self.release()

    def resize(self, batch: int) -> None:
        """Learn from batches of this many steps from now on. `release` must be called before if there was one."""
        self.batch = batch
        self.reward, self.discount, self.weights, self.errors = torch.zeros(4, batch, device=self.device).unbind()

    def explore(self, steps: int) -> None:
        """Set how often actions are random, `steps` control steps after those that are counted."""
        raise NotImplementedError

    def release(self) -> None:
        """Free all CUDA graphs, and forget the memory of batches."""
        self._rows: Rows | None = None
        self._graphs: dict[Callable[[], None], Captured] = {}

    def begin(self) -> None:
        """Begin an iteration: metrics are sums over its updates."""
        self.totals.zero_()
        self.done = 0

    def update(self, batch: RingBatch, weights: Tensor | None = None) -> Tensor:
        """Learn from a batch. Returns the errors `[batch]`, which the next call overwrites.

        Args:
            batch: Of the ring. Those after the first are drawn into its memory (`Ring.sample(out=)`).
            weights: Of the importance of each step, float32 `[batch]`; None: 1.
        """
        if self._rows is not batch.rows[0]:
            self.release()
            self._rows = batch.rows[0]
        self.fields = batch.fields
        self.reward.copy_(batch.fields["reward"])
        self.discount.copy_(batch.fields["discount"])
        if weights is None:
            self.weights.fill_(1.0)
        else:
            self.weights.copy_(weights)
        self.updates += 1
        self.done += 1
        self.take_step()
        return self.errors

    def take_step(self) -> None:
        """Compute gradients, sum them, apply them, and move the targets."""
        raise NotImplementedError

    def run(self, function: Callable[[], None]) -> None:
        """Call a function, on a GPU as a CUDA graph."""
        if function not in self._graphs:
            self._graphs[function] = Captured(function, self.device, is_on=self._cuda_graphs)
        self._graphs[function]()

    def observations(self) -> tuple[Tensor, Tensor]:
        """Normalised observations of the batch, and those that follow."""
        obs, following = self.fields["obs"], self.fields[NEXT_OBS]
        if not self.config.normalise:
            return obs, following
        return self.agent.normaliser(obs), self.agent.normaliser(following)

    def add_gradient(self, loss: Tensor, parameters: list[nn.Parameter]) -> None:
        """Add this GMI's share of a loss's gradient to the bucket, of these parameters alone."""
        (loss * self.share).backward(inputs=parameters)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def note(self, *measured: Tensor) -> None:
        """Write this GMI's share of the metrics of an update into the bucket."""
        self.flat.tail.copy_(torch.stack([number.detach() for number in measured]) * self.share)

    @torch.no_grad()
    def apply(self, parts: slice, checked: Tensor) -> None:
        """A step of the Adams of these parts, with the sum in the bucket.

        Args:
            parts: Of the Adams.
            checked: A number `[]` that is finite if all gradients are. If it is not, nothing changes.
        """
        torch.logical_not(checked.isfinite(), out=self.found_inf)
        for adam in self.adams[parts]:
            adam.step()
        self.totals[:-1] += self.flat.tail
        self.totals[-1] += self.found_inf

    @torch.no_grad()
    def means(self) -> dict[str, float]:
        """Means of the metrics over the updates of this iteration, if there were any. Waits for the device."""
        *sums, skipped = self.totals.tolist()
        values = {"learning_rate": self.config.learning_rate, "updates": float(self.updates)}
        if self.done:
            values |= {name: total / self.done for name, total in zip(self.METRICS, sums, strict=True)}
            values["skipped_updates"] = skipped
        return values

    def metrics(self) -> dict[str, float]:
        """See `means`."""
        return self.means()

    def counts(self) -> Tensor:
        """What was counted, int64 `[2]`."""
        return torch.tensor([self.steps, self.updates])

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next update depends on, but the batch and the noise."""
        state = {"parameters": self.flat.vector, "learning_rate": self.learning_rate}
        for number, adam in enumerate(self.adams):
            of = f"adam.{number}"
            state |= {f"{of}.mean": adam.mean, f"{of}.square": adam.square, f"{of}.step": adam.steps}
        return state

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(saved[name])


def frozen_copy(module: nn.Module, vector: Tensor) -> FlatParameters:
    """Make a module's parameters views of one vector with the values of `vector`, without gradients."""
    flat = FlatParameters(list(module.parameters()), 0, partial(torch.zeros, device=vector.device))
    flat.vector.copy_(vector)
    module.requires_grad_(False)
    return flat
