"""A table that never cuts a number, however narrow the terminal is."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table


class NumberTable(Table):
    """A table whose columns have as `min_width` the width of their longest cell; in a narrow terminal titles wrap.

    Rich alone narrows the widest columns, then widens those below their `min_width`, so that the last column lies
    beyond the edge and is cut.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fix the width of columns whose cells are at least as wide as each word of the title, then render."""
        natural = self.__rich_measure__(console, options.update(max_width=10**4)).maximum
        for column in self.columns:
            cells = column.min_width or 0
            if natural > options.max_width and cells >= max(map(len, str(column.header).split())):
                column.width = cells
        yield from super().__rich_console__(console, options)
