"""What a handler of a coordinator returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from ottla.coordinators.record import AnyRecord
from ottla.kernel.errors import KafkaError

T = TypeVar("T")

_PENDING = object()


class Deferred(Generic[T]):
    """A response that comes later, once: a member waits for the others to join. Kept by the state
    machine, which resolves it; heard by the runtime."""

    __slots__ = ("_callback", "_value")

    def __init__(self) -> None:
        self._value: object = _PENDING
        self._callback: Callable[[T], None] | None = None

    @property
    def is_resolved(self) -> bool:
        return self._value is not _PENDING

    @property
    def value(self) -> T:
        assert self.is_resolved, "the response has not come yet"
        return cast("T", self._value)

    def resolve(self, value: T) -> None:
        assert not self.is_resolved, "a request is answered once"
        self._value = value
        if self._callback is not None:
            self._callback(value)

    def on_resolved(self, callback: Callable[[T], None]) -> None:
        if self.is_resolved:
            callback(self.value)
        else:
            self._callback = callback


class Result(Generic[T]):
    """The response, and the records that must be in the log before it is given."""

    __slots__ = ("on_failed", "on_written", "records", "response")

    def __init__(
        self,
        response: T | Deferred[T],
        records: Sequence[AnyRecord] = (),
        *,
        on_written: Callable[[], None] | None = None,
        on_failed: Callable[[KafkaError], None] | None = None,
    ) -> None:
        self.response = response
        self.records = records
        self.on_written = on_written
        """Called when the records are in the log and replayed, before the response is given and
        before any operation that waits; at once when there are none to write. For what may begin
        only now: it must not be begun on behalf of a record that a crash could take back."""
        self.on_failed = on_failed
        """Called when the records could not be written, to take back what the handler changed in
        the state that is not replayed; then the error is the answer, unless the response is
        deferred and was resolved by this."""
