"""Another name of `selectors`, which dm-reverb has, too."""

from gmi_drl.replay.reverb.selectors import Fifo, Lifo, MaxHeap, MinHeap, Prioritized, Uniform

__all__ = ["Fifo", "Lifo", "MaxHeap", "MinHeap", "Prioritized", "Uniform"]
