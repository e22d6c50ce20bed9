"""Layouts: how devices are cut, which GMI has which roles, and how gradients are summed."""
