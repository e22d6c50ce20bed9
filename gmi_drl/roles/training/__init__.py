"""Roles that simulate, act and learn on one GMI, and their parts."""
