"""Baselines to compare with: groups and reductions of torch.distributed and Horovod."""
