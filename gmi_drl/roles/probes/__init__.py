"""Roles that measure iterations for plans and profiles."""
