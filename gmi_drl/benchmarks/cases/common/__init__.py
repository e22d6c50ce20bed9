"""Helpers that several cases share."""
