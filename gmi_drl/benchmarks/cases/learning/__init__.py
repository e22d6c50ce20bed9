"""Cases that train from scratch and compare returns."""
