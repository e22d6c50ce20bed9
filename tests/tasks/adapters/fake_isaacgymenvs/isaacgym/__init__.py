"""A fake of Isaac Gym: all that counts of it here is that it refuses to come after torch."""

import sys

if "torch" in sys.modules:
    raise ImportError("PyTorch was imported before isaacgym modules")
