"""A plugin of pytest: coverage.py notes which test ran a line. It is already on, by COVERAGE_PROCESS_START."""

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs from now on runs for this test. Processes that it starts read its name in PYTEST_CURRENT_TEST."""
    measuring = coverage.Coverage.current()
    assert measuring is not None, "coverage.py is not on: is COVERAGE_PROCESS_START set?"
    measuring.switch_context(item.nodeid)
    yield
    measuring.switch_context("")
