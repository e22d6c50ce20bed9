"""The kernels of WarpSim. Importing this module imports warp, so only WarpSim does, when it is made."""

import warp as wp

LARGEST = wp.constant(1e10)
"""MuJoCo's mjMAXVAL: a number above it, or none at all, is an accident."""


@wp.kernel(enable_backward=False)
def mark_broken(values: wp.array2d[float], broken: wp.array[bool]) -> None:
    """Mark worlds `[N]` that have a value `[N, K]` which is NaN, infinite or huge."""
    world, column = wp.tid()
    if not (wp.abs(values[world, column]) < LARGEST):  # also where it is NaN
        broken[world] = True


@wp.kernel(enable_backward=False)
def mark_overflow(
    overflow: wp.array[int],
    kinds: int,
    broken: wp.array[bool],
    seen: wp.array[int],
) -> None:
    """Mark worlds `[N]` in whose step one of these kinds (bits) of overflow occurred; `seen` `[1]` gathers the bits."""
    world = wp.tid()
    bits = overflow[world] & kinds
    if bits != 0:
        broken[world] = True
        wp.atomic_or(seen, 0, bits)


@wp.kernel(enable_backward=False)
def mark_where(rows: wp.array[bool], marked: wp.array[bool]) -> None:
    """Mark these rows, `[N]` both."""
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
    """Copy from `source` to `target` `[N, K]` what lies both in these rows `[N]` and in these columns `[K]`."""
    world, column = wp.tid()
    if rows[world] and columns[column]:
        target[world, column] = source[world, column]
