"""What is made of runs that are there: an exported policy, a comparison, a report."""
