"""The benchmark runner: measures the sides of a case in turn, and records their ratios and all that they depend on."""
