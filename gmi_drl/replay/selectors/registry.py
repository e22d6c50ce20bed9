"""The selectors by name, ours and those of other packages."""

from dataclasses import dataclass

from gmi_drl.errors import UsageError
from gmi_drl.registry import Registry, class_at
from gmi_drl.replay.selectors.base import Selector


@dataclass(frozen=True)
class SelectorEntry:
    """An entry of the registry, or of the group of entry points `gmi_drl.selectors`.

    Args:
        name: In configurations.
        location: `module:class`, a subclass of `Selector`.
    """

    name: str
    location: str


_HERE = "gmi_drl.replay.selectors"

SELECTORS = Registry[SelectorEntry](
    "selector",
    "gmi_drl.selectors",
    (
        SelectorEntry("uniform", f"{_HERE}.uniform:Uniform"),
        SelectorEntry("prioritized", f"{_HERE}.prioritized:Prioritized"),
        SelectorEntry("fifo", f"{_HERE}.order:Fifo"),
        SelectorEntry("lifo", f"{_HERE}.order:Lifo"),
        SelectorEntry("max_heap", f"{_HERE}.heap:MaxHeap"),
        SelectorEntry("min_heap", f"{_HERE}.heap:MinHeap"),
        SelectorEntry("top_k", f"{_HERE}.top_k:TopK"),
    ),
)


def make_selector(name: str, *arguments: float) -> Selector:
    """Make a selector, such as `make_selector("prioritized", 0.6)`.

    Raises:
        UsageError: if there is none of this name, or it takes other arguments.
        MachineError: if the package of another one cannot be imported.
    """
    made = class_at(SELECTORS.find(name).location)
    try:
        selector: Selector = made(*arguments)
    except TypeError as error:
        raise UsageError(f"the selector {name!r}: {error}") from None
    return selector
