from __future__ import annotations

from ottla.storage.verification import Verification


def _verification(epoch: int, sequence: int) -> Verification:
    return Verification(epoch, sequence, supports_epoch_bump=False, began_ms=0)


def test_the_lowest_sequence_of_an_epoch_comes_first() -> None:
    verification = _verification(1, 5)
    verification.note(1, 7)
    assert verification.lowest_sequence == 5
    verification.note(1, 3)
    assert verification.lowest_sequence == 3


def test_a_new_epoch_begins_anew() -> None:
    verification = _verification(1, 3)
    verification.note(2, 9)
    assert (verification.producer_epoch, verification.lowest_sequence) == (2, 9)


def test_an_old_epoch_changes_nothing() -> None:
    verification = _verification(2, 3)
    verification.note(1, 0)
    assert (verification.producer_epoch, verification.lowest_sequence) == (2, 3)


def test_no_guard_is_like_another() -> None:
    assert _verification(0, 0).guard != _verification(0, 0).guard
