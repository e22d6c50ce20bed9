"""Tools for the people who work on gmi-drl."""
