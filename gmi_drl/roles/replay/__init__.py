"""Roles that act into a ring of replay and learn from it."""
