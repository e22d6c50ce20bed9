"""torch.distributed's and Horovod's own groups and reductions, to compare with."""
