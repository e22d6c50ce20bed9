"""Tools for developers of gmi-drl."""
