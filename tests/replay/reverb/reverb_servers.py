"""Servers with Reverb's interface for tests, in this process."""

from contextlib import contextmanager

from gmi_drl.replay import reverb


def uniform(name="table", max_size=100, **options):
    limiter = options.pop("rate_limiter", None) or reverb.rate_limiters.MinSize(1)
    sampler = options.pop("sampler", None) or reverb.selectors.Uniform()
    return reverb.Table(name, sampler, reverb.selectors.Fifo(), max_size, limiter, **options)


@contextmanager
def served(*tables, **options):
    """A server of tables, and a client of it."""
    with reverb.Server(tables, **options) as server:
        yield server, server.localhost_client()
