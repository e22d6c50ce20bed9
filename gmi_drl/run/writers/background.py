"""Runs a writer in a thread, so that it can neither delay nor end a training."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from gmi_drl.errors import GmiError
from gmi_drl.run.metrics import Row
from gmi_drl.run.writers.writer import Writer


class Background:
    """Makes a writer and passes it rows, in a thread of its own.

    Args:
        name: In the configuration.
        make: Makes the writer; it may take long, and may fail.

    Attributes:
        failure: Why the writer takes no more rows, for a message; None while it takes them.
    """

    def __init__(self, name: str, make: Callable[[], Writer]) -> None:
        self.name = name
        self.failure: str | None = None
        self._rows: SimpleQueue[Row | None] = SimpleQueue()
        self._thread = Thread(target=self._work, args=(make,), name=f"writer {name}", daemon=True)
        self._thread.start()

    def write(self, row: Row) -> None:
        """Queue a row."""
        self._rows.put(row)

    def end(self) -> None:
        """Let the writer close after the queued rows."""
        self._rows.put(None)

    def join(self, wait_s: float) -> None:
        """Wait at most `wait_s` for the writer to close; after that, it has failed."""
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
        except (Exception, SystemExit) as error:  # of any library, or of its network
            self.failure = f"failed: {type(error).__name__}: {error}"
