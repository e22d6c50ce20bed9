"""Cases that train from nothing and compare returns."""
