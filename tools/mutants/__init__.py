"""Makes small faults, one at a time, and finds those that no test notices: `make mutants`, docs/mutants.md."""
