"""Cases against other libraries."""
