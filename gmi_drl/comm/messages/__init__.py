"""Trees of tensors from one GMI to another (paper section 3, Listing 1)."""
