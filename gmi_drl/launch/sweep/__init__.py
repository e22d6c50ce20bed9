"""Sweeps: independent trainings, or programs of others, packed on the devices of this machine, by a queue on disk."""
