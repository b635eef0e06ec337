"""What a transaction shard needs of the world."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ottla.config.broker import BrokerConfig
from ottla.coordinators.timers import Timers
from ottla.coordinators.transactions.transaction import Transaction


class Followups(Protocol):
    """What begins when a record is in the log, and goes on without the shard."""

    def finish(self, transaction: Transaction) -> None:
        """It is prepared: its markers are to be written, then `complete` is to be called. As far as
        nothing has to be waited for this is done now: then the next transaction of the producer,
        which may be on its way, never finds this one unfinished."""
        ...

    def finish_later(self, transaction: Transaction) -> None:
        """As one of many: others have their turn in between."""
        ...

    def abort_timed_out(self, transactional_ids: Iterable[str]) -> None: ...


class TransactionContext(NamedTuple):
    """Owned by one shard, and as old as it."""

    timers: Timers
    config: Callable[[], BrokerConfig]
    """As it is now: dynamic settings change it."""
    now_ms: Callable[[], int]
    rng: random.Random
    followups: Followups
