"""Computes what a billion steps cost on the GPUs of a node, in the user's currency."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import is_called
from gmi_drl.hardware.node import Node

OPTION = "--price-per-gpu-hour"

BILLION = 1e9


@dataclass(frozen=True)
class Prices:
    """Prices of one GPU for an hour.

    Args:
        usual: The price of a GPU that `by_model` does not have; None if not given.
        by_model: Prices by the first words of a model's name, e.g. `{"A100": 1.5, "A100-SXM4-80GB": 2.0}`. The longest
            match counts.
    """

    usual: float | None = None
    by_model: Mapping[str, float] = field(default_factory=dict)

    def of(self, model: str) -> float:
        """The price of a GPU of this model.

        Raises:
            UsageError: if it was not given.
        """
        fitting = [name for name in self.by_model if is_called(model, name)]
        if fitting:
            return self.by_model[max(fitting, key=len)]
        if self.usual is None:
            raise UsageError(f"{OPTION}: no price of {model} is given: add {OPTION} '{model}=PRICE'")
        return self.usual


def prices_of(texts: Iterable[str]) -> Prices | None:
    """Parse `["2.5"]`, `["H100=2.5", "A100=1.2"]` or both kinds. None if the list is empty.

    Raises:
        UsageError: if one is no price, or a model has two.
    """
    usual: float | None = None
    by_model: dict[str, float] = {}
    for text in texts:
        model, equals, number = (part.strip() for part in text.rpartition("="))
        price = _price(number, text)
        if equals and not model:
            raise UsageError(f"{OPTION} {text}: name the model before the =, or leave the = out")
        if model in by_model or (not equals and usual is not None):
            raise UsageError(f"{OPTION} {text}: {model or 'GPUs without a name'} have a price already")
        if equals:
            by_model[model] = price
        else:
            usual = price
    return Prices(usual, by_model) if by_model or usual is not None else None


def price_per_hour(node: Node, prices: Prices) -> float:
    """The price of an hour of the GPUs of a node that are in use.

    Raises:
        UsageError: if it has none, or a price is not known.
    """
    if not node.num_gpus:
        raise UsageError(f"{OPTION}: {node.name} has no GPU: leave it out")
    return math.fsum(part.count * prices.of(part.model) for part in node.used_models)


def cost_per_billion_steps(price_per_hour: float, steps_per_second: float) -> float:
    """`price per hour / (3600 s x steps per second) x 10^9`; infinite at 0 steps/s."""
    return price_per_hour * BILLION / (3600 * steps_per_second) if steps_per_second else math.inf


def _price(number: str, text: str) -> float:
    try:
        price = float(number)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise UsageError(f"{OPTION} {text}: a price is a number of 0 or more, e.g. 2.5 or H100=2.5")
    return price
