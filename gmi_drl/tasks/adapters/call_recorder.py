"""Records what gymnasium's environments return, so that an error names the environment, the step and the value."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from gmi_drl.errors import GmiError, place_of

if TYPE_CHECKING:
    from gymnasium import Env

SHOWN = 300
"""Most characters of a returned value that an error shows."""

STEP_FORM = ("observation", "reward", "terminated", "truncated", "info")
OLD = "this is the interface of gym before 0.26: update the environment, or wrap it in shimmy's GymV21CompatibilityV0"
_NOTHING = object()


class CallRecorder:
    """Wraps `reset` and `step` of an environment, outside the wrappers of its own entry, and keeps the last result.

    Each reset and the first step raise TypeError if the result has another form than gymnasium's; later steps, if a
    value is missing or None. Calls that the environment makes itself, such as `self.step` in its `reset`, are not
    recorded.

    Args:
        env: The environment as `gymnasium.make` returns it.
        number: Its number within the task.
        last: A list of one, shared by all recorders: the recorder whose environment was called last.
    """

    def __init__(self, env: "Env[Any, Any]", number: int, last: list["CallRecorder | None"]) -> None:
        made = _without_those_of_make(env)
        core = made.unwrapped
        self.number, self.steps, self._last = number, 0, last
        self.kind = f"{type(core).__module__}.{type(core).__name__}"
        self._shape = made.observation_space.shape if hasattr(made, "observation_space") else None
        self._is_step, self._is_within, self._returned = False, False, _NOTHING
        made.reset = self._recording_reset(made.reset)
        made.step = self._recording_step(made.step)

    @property
    def where(self) -> str:
        """The environment and its last call, as text."""
        call = f"step {self.steps}" if self._is_step else "reset"
        return f"environment {self.number} ({self.kind}), {call}"

    def returned(self) -> str:
        """The result of the last call, as text for an error; empty if the call did not return."""
        if self._returned is _NOTHING:
            return ""
        text = repr(self._returned)
        return f"; it returned {text[:SHOWN]}{'...' if len(text) > SHOWN else ''}"

    def mistake(self) -> str:
        """What is wrong with the form of the last call's result; empty if nothing is."""
        if self._returned is _NOTHING:
            return ""
        form = STEP_FORM if self._is_step else ("observation", "info")
        result, wanted = self._returned, f"not ({', '.join(form)})"
        if not isinstance(result, tuple):
            return f"it returned a value of type {type(result).__name__}, {wanted}: {OLD}"
        if len(result) != len(form):
            return f"it returned {len(result)} values, {wanted}" + (f": {OLD}" if len(result) == 4 else "")
        if self._shape is not None and np.shape(result[0]) != self._shape:
            return f"its observation has the shape {np.shape(result[0])}, its observation_space {self._shape}"
        if self._is_step and not _is_number(result[1]):
            is_single = isinstance(result[1], np.ndarray) and result[1].size == 1
            return f"its reward is {result[1]!r}, not a number" + ": let it return reward.item()" * is_single
        flags = zip(form[2:4], result[2:4], strict=True) if self._is_step else ()
        if ends := [name for name, flag in flags if flag is None]:
            return f"its {' and '.join(ends)} is None, not True or False"
        return "" if isinstance(result[-1], dict) else f"its info is a {type(result[-1]).__name__}, not a dict"

    def _recording_reset(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)  # gymnasium inspects the signature
        def reset(*arguments: Any, **named: Any) -> Any:
            if self._is_within:
                return call(*arguments, **named)
            self._last[0], self._is_step, self._returned = self, False, _NOTHING
            self._is_within = True
            try:
                self._returned = call(*arguments, **named)
            finally:
                self._is_within = False
            self._require_form()
            return self._returned

        return reset

    def _recording_step(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        last = self._last

        @wraps(call)
        def step(action: Any) -> Any:  # takes 0.2 us more than the call itself
            if self._is_within:
                return call(action)
            last[0] = self
            self._is_step = self._is_within = True
            self._returned = _NOTHING
            self.steps += 1
            try:
                self._returned = returned = call(action)
            finally:
                self._is_within = False
            if self.steps == 1 or not _is_whole(returned):
                self._require_form()
            return returned

        return step

    def _require_form(self) -> None:
        """Raise TypeError if there is a `mistake`."""
        if mistake := self.mistake():
            raise TypeError(mistake)


def _without_those_of_make(env: "Env[Any, Any]") -> Any:
    """The environment without the wrappers of `gymnasium.make`.

    These fail if the form is wrong, while wrappers of the entry itself may correct it.
    """
    from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

    made: Any = env
    while type(made) in (OrderEnforcing, PassiveEnvChecker, TimeLimit):
        made = made.env
    return made


def _is_whole(result: Any) -> bool:
    """Whether a step returned five values with a reward and both flags. NumPy would take None for nan or False."""
    if not (isinstance(result, tuple) and len(result) == 5):
        return False
    _, reward, terminated, truncated, _ = result
    return reward is not None and terminated is not None and truncated is not None


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiub"


class CallRecorders:
    """The recorders of a task's environments; none for environments that the adapter has not made."""

    def __init__(self) -> None:
        self._last: list[CallRecorder | None] = [None]
        self._all: list[CallRecorder] = []

    def record(self, env: "Env[Any, Any]") -> "Env[Any, Any]":
        """Record the calls of this environment. Returns it."""
        self._all.append(CallRecorder(env, len(self._all), self._last))
        return env

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Turn errors in the `with` block into GmiErrors of the task `name` that say which environment failed."""
        try:
            yield
        except GmiError:
            raise
        except Exception as error:  # an environment may raise anything
            for recorder in self._all:
                if mistake := recorder.mistake():
                    raise GmiError(f"{name}: {recorder.where}: {mistake}{recorder.returned()}") from error
            last = self._last[0]
            who = f"{last.where}: " if last else ""
            rest = last.returned() if last else ""
            raise GmiError(f"{name}: {who}{type(error).__name__}: {error} ({place_of(error)}){rest}") from error
