"""Measures how a workload runs on GMIs, by launching it, and plans by what was measured."""
