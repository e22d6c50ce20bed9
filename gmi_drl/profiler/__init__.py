"""Measuring how a workload runs on GMIs, by launching it."""
