"""The role that learns a sequence policy from recorded episodes."""
