"""Reductions: how vectors are summed over a group (paper section 4.1)."""
