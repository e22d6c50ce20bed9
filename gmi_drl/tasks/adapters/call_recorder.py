"""What environments of gymnasium return, watched, so that an error names world, step and what was returned."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from gmi_drl.errors import GmiError, place_of

if TYPE_CHECKING:
    from gymnasium import Env

SHOWN = 300
"""Characters of what was returned that an error shows at most."""

STEP_FORM = ("observation", "reward", "terminated", "truncated", "info")
OLD = "it has the interface of gym before 0.26: mend it, or wrap it by shimmy's GymV21CompatibilityV0"
_NOTHING = object()


class CallRecorder:
    """Stands before `reset` and `step` of what an entry has made, with its wrappers, and keeps what the last returned.

    Each reset and the first step raise TypeError if they return another form than gymnasium's, later steps if a value
    is missing or None. Calls that the environment makes itself, such as `self.step` in its `reset`, are not looked at.

    Args:
        env: As `gymnasium.make` makes it.
        world: Its number.
        last: A list of one, which all recorders share: whose environment was called last.
    """

    def __init__(self, env: "Env[Any, Any]", world: int, last: list["CallRecorder | None"]) -> None:
        made = _without_those_of_make(env)
        core = made.unwrapped
        self.world, self.steps, self._last = world, 0, last
        self.kind = f"{type(core).__module__}.{type(core).__name__}"
        self._shape = made.observation_space.shape if hasattr(made, "observation_space") else None
        self._is_step, self._is_within, self._returned = False, False, _NOTHING
        made.reset = self._watch_reset(made.reset)
        made.step = self._watch_step(made.step)

    @property
    def where(self) -> str:
        """Which world, and in which of its calls."""
        call = f"step {self.steps}" if self._is_step else "reset"
        return f"world {self.world} ({self.kind}), {call}"

    def returned(self) -> str:
        """What the last call returned, for people; empty if it returned nothing."""
        if self._returned is _NOTHING:
            return ""
        text = repr(self._returned)
        return f"; it returned {text[:SHOWN]}{'...' if len(text) > SHOWN else ''}"

    def mistake(self) -> str:
        """What is wrong with the form of what the last call returned; empty if nothing is."""
        if self._returned is _NOTHING:
            return ""
        form = STEP_FORM if self._is_step else ("observation", "info")
        told, wanted = self._returned, f"not ({', '.join(form)})"
        if not isinstance(told, tuple):
            return f"it returned a value of type {type(told).__name__}, {wanted}: {OLD}"
        if len(told) != len(form):
            return f"it returned {len(told)} values, {wanted}" + (f": {OLD}" if len(told) == 4 else "")
        if self._shape is not None and np.shape(told[0]) != self._shape:
            return f"its observation has the shape {np.shape(told[0])}, its observation_space {self._shape}"
        if self._is_step and not _is_number(told[1]):
            remedy = ": let it return reward.item()" if isinstance(told[1], np.ndarray) and told[1].size == 1 else ""
            return f"its reward is {told[1]!r}, not a number{remedy}"
        ends = (
            [] if not self._is_step else [name for name, flag in zip(form[2:4], told[2:4], strict=True) if flag is None]
        )
        if ends:
            return f"its {' and '.join(ends)} is None, not True or False"
        return "" if isinstance(told[-1], dict) else f"its info is a {type(told[-1]).__name__}, not a dict"

    def _watch_reset(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)  # gymnasium looks at the signature
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

    def _watch_step(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        last = self._last

        @wraps(call)
        def step(action: Any) -> Any:  # 0.2 us
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
    """The environment without the wrappers of `gymnasium.make`, which fail by another form: an entry's may mend it."""
    from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

    made: Any = env
    while type(made) in (OrderEnforcing, PassiveEnvChecker, TimeLimit):
        made = made.env
    return made


def _is_whole(told: Any) -> bool:
    """Whether a step returned five values with a reward and both ends: numpy takes None for nan or for False."""
    if not (isinstance(told, tuple) and len(told) == 5):
        return False
    _, reward, terminated, truncated, _ = told
    return reward is not None and terminated is not None and truncated is not None


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiub"


class CallRecorders:
    """Those of all environments of a task; none where somebody else has made them."""

    def __init__(self) -> None:
        self._last: list[CallRecorder | None] = [None]
        self._all: list[CallRecorder] = []

    def watch(self, env: "Env[Any, Any]") -> "Env[Any, Any]":
        """Have the next one watch this environment, which is returned."""
        self._all.append(CallRecorder(env, len(self._all), self._last))
        return env

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Have errors of the task `name` in the `with` block say which environment they are of, as GmiErrors."""
        try:
            yield
        except GmiError:
            raise
        except Exception as error:  # code of others
            for recorder in self._all:
                if mistake := recorder.mistake():
                    raise GmiError(f"{name}: {recorder.where}: {mistake}{recorder.returned()}") from error
            last = self._last[0]
            who = f"{last.where}: " if last else ""
            rest = last.returned() if last else ""
            raise GmiError(f"{name}: {who}{type(error).__name__}: {error} ({place_of(error)}){rest}") from error
