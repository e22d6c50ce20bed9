"""Cases after the papers' figures and tables."""
