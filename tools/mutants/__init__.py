"""Small faults, one at a time: which of them does no test notice? `make mutants`; the score is in docs/mutants.md."""
