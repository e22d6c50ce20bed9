"""Simulators: many worlds of one MuJoCo model, seen as batched torch tensors. torch starts in this layer."""

from gmi_drl.sim.base import STATE_FIELDS, Sim
from gmi_drl.sim.native import NativeSim

__all__ = ["STATE_FIELDS", "NativeSim", "Sim"]
