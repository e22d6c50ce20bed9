"""A writer that can neither hold up nor end a training."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from gmi_drl.errors import GmiError
from gmi_drl.run.metrics import Row
from gmi_drl.run.writers.writer import Writer


class Background:
    """Makes a writer, and gives it rows, in a thread of its own.

    Args:
        name: As the configuration has it.
        make: Makes the writer; may take its time, and may fail.

    Attributes:
        failure: Why the writer takes no more rows; None as long as it does.
    """

    def __init__(self, name: str, make: Callable[[], Writer]) -> None:
        self.name = name
        self.failure: str | None = None
        self._rows: SimpleQueue[Row | None] = SimpleQueue()
        self._thread = Thread(target=self._work, args=(make,), name=f"writer {name}", daemon=True)
        self._thread.start()

    def write(self, row: Row) -> None:
        """Hand a row over."""
        self._rows.put(row)

    def end(self) -> None:
        """Say that no more rows come."""
        self._rows.put(None)

    def join(self, wait_s: float) -> None:
        """Wait for the writer's end, for so long at most."""
        self._thread.join(max(0.0, wait_s))
        if self._thread.is_alive():
            self.failure = "has not finished in time"

    def _work(self, make: Callable[[], Writer]) -> None:
        try:
            writer = make()
            while (row := self._rows.get()) is not None:
                writer.write(row)
            writer.close()
        except GmiError as error:
            self.failure = f"failed: {error}"
        except (Exception, SystemExit) as error:  # of any library, and of any network behind it
            self.failure = f"failed: {type(error).__name__}: {error}"
