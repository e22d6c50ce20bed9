"""A report: one HTML page about runs that needs no network, no other file and no program but a browser."""
