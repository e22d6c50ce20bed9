"""A table whose numbers are whole however narrow the terminal is."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table


class NumberTable(Table):
    """A table of columns with a `min_width`, that of their longest cell.

    Rich narrows the widest columns alike, then widens those that are too narrow for their `min_width`, so that the
    last one lies beyond the edge and is cut. Here titles alone give way.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Keep columns whose cells are as wide as any word of the title out of the narrowing."""
        natural = self.__rich_measure__(console, options.update(max_width=10**4)).maximum
        for column in self.columns:
            cells = column.min_width or 0
            if natural > options.max_width and cells >= max(map(len, str(column.header).split())):
                column.width = cells
        yield from super().__rich_console__(console, options)
