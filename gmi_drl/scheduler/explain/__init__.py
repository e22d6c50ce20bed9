"""Explains a plan formula by formula, with its numbers (`plan --explain`)."""
