"""Whether the transaction coordinator knows of a transaction before a partition takes part in it.

A producer's first batch of a transaction may be late: its transaction has been aborted meanwhile,
and nobody would ever end the one that it began (KIP-890). So the leader asks the coordinator
first. The answer may be late as well, and a marker may come in between: the guard that was handed
out before the question is void then.
"""

from __future__ import annotations


class VerificationGuard:
    """Stands for one question to the coordinator. Compared by identity."""

    __slots__ = ()


class Verification:
    """What is being verified for one producer id. Lives from the first question until the batch is
    appended, a marker comes, or as long as an idle producer would be remembered; a crash forgets
    it, and the producer tries again."""

    __slots__ = ("began_ms", "guard", "lowest_sequence", "producer_epoch", "supports_epoch_bump")

    def __init__(
        self, producer_epoch: int, sequence: int, *, supports_epoch_bump: bool, began_ms: int
    ) -> None:
        self.guard = VerificationGuard()
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.began_ms = began_ms

    def note(self, producer_epoch: int, sequence: int) -> None:
        """Another batch asks. Of those that are on their way the lowest sequence must be appended
        first: were a later one first, the earlier would be out of order for ever."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
