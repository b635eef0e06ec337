"""The states of a transactional id, and which may follow which.

`Ongoing` has partitions to write to. `Prepare…` is decided and in the log: from here on there is
one outcome, whatever crashes; markers are being written. `Complete…` has all its markers. Since
KIP-890 a producer may abort before anything was added, so that an abort can follow every state in
which nothing is open.

Kafka has two more, of which neither is ever written: `Dead` while an id expires, and
`PrepareEpochFence` while a producer is fenced. Here both are single operations.
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """By the number that stands in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def text(self) -> str:
        """As Kafka's tools show it."""
        return _TEXTS[self]

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Nothing is open: a producer may begin anew, and the id may expire."""
        return self in _IDLE


_TEXTS = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
}

STATES_BY_TEXT = {text: state for state, text in _TEXTS.items()}

NEVER_SHOWN = frozenset({"Dead", "PrepareEpochFence"})
"""States of Kafka that a filter may name, though no id is ever seen in them."""

_IDLE = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)

ALLOWED_PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
