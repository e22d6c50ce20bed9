"""`gmi-drl train`: its options, its checks, and how it resumes a run."""
