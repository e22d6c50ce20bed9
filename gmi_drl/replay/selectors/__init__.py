"""Which item of a table is sampled or evicted next (Reverb, section 3.3)."""

from gmi_drl.replay.selectors.base import Selector
from gmi_drl.replay.selectors.heap import MaxHeap, MinHeap
from gmi_drl.replay.selectors.order import Fifo, Lifo
from gmi_drl.replay.selectors.prioritized import Prioritized
from gmi_drl.replay.selectors.registry import SELECTORS, SelectorEntry, make_selector
from gmi_drl.replay.selectors.top_k import TopK
from gmi_drl.replay.selectors.uniform import Uniform

__all__ = [
    "SELECTORS",
    "Fifo",
    "Lifo",
    "MaxHeap",
    "MinHeap",
    "Prioritized",
    "Selector",
    "SelectorEntry",
    "TopK",
    "Uniform",
    "make_selector",
]
