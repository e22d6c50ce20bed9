"""Groups of ranks: how they meet, wait for each other and exchange a few numbers."""
