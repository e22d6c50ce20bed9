"""Roles that act without learning: serve, play, record."""
