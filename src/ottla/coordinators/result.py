"""What a handler of a coordinator returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from ottla.coordinators.record import AnyRecord
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Steps

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
    """The response, and the records that must be committed before it is given."""

    __slots__ = (
        "is_atomic",
        "on_committed",
        "on_failed",
        "on_replayed",
        "records",
        "response",
        "timeout_ms",
    )

    def __init__(
        self,
        response: T | Deferred[T],
        records: Sequence[AnyRecord] = (),
        *,
        is_atomic: bool = True,
        on_replayed: Callable[[], None] | None = None,
        on_committed: Callable[[], None] | None = None,
        on_failed: Callable[[KafkaError], None] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        self.response = response
        self.records = records
        self.is_atomic = is_atomic
        """Whether all records are written or none, and what does not fit into one batch is refused.
        Of a clean-up a part may be done, and the rest another time."""
        self.on_replayed = on_replayed
        """Called when the records have their place in the log: brings about the effect of those
        that are not replayed (`EncodedRecord`)."""
        self.on_committed = on_committed
        """Called when the records are committed. For what may begin only then: it must not be
        begun on behalf of a record that a crash could take back."""
        self.on_failed = on_failed
        """Called when the records got no place, to take back what the handler changed in the state
        that is not replayed; then the error is the answer, unless the response is deferred and was
        resolved by this."""
        self.timeout_ms = timeout_ms
        """How long the response waits for the records to be committed, where that is not as long as
        any of this coordinator."""


Planned = Result[T] | Steps[Result[T]]
"""What an operation returns. One that goes over all that a client has named does so in steps."""
