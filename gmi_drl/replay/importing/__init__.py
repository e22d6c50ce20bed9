"""Brings episodes of other origin into a `.replay` folder: a reader for each origin, and what writes the folder."""
