"""The kernels of WarpSim. This module imports warp, so only `warp` and its helpers import it."""

import warp as wp

LARGEST = wp.constant(1e10)
"""MuJoCo's mjMAXVAL: a larger number, or NaN, is a failure."""


@wp.kernel(enable_backward=False)
def mark_broken(values: wp.array2d[float], broken: wp.array[bool]) -> None:
    """Mark the worlds `[N]` that have a value in `[N, K]` that is NaN, infinite or huge."""
    world, column = wp.tid()
    if not (wp.abs(values[world, column]) < LARGEST):  # True for NaN, too
        broken[world] = True


@wp.kernel(enable_backward=False)
def mark_overflow(
    overflow: wp.array[int],
    kinds: int,
    broken: wp.array[bool],
    seen: wp.array[int],
) -> None:
    """Mark the worlds `[N]` in which one of these kinds (bits) of overflow occurred. `seen` `[1]` collects the bits."""
    world = wp.tid()
    bits = overflow[world] & kinds
    if bits != 0:
        broken[world] = True
        wp.atomic_or(seen, 0, bits)


@wp.kernel(enable_backward=False)
def mark_where(rows: wp.array[bool], marked: wp.array[bool]) -> None:
    """Set `marked` `[N]` where `rows` `[N]` is True."""
    row = wp.tid()
    if rows[row]:
        marked[row] = True


@wp.kernel(enable_backward=False)
def copy_where(
    rows: wp.array[bool],
    columns: wp.array[bool],
    source: wp.array2d[float],
    target: wp.array2d[float],
) -> None:
    """Copy from `source` to `target` `[N, K]` where both `rows` `[N]` and `columns` `[K]` are True."""
    world, column = wp.tid()
    if rows[world] and columns[column]:
        target[world, column] = source[world, column]
