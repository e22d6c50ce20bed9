"""Cases that repeat the paper's figures and tables."""
