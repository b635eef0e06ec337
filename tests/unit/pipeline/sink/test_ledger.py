from __future__ import annotations

import pytest

from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.ids import TopicId, TopicPartition
from ottla.pipeline.sink.ledger import LedgerError, check_starts, is_written, marked
from ottla.pipeline.sink.transaction import LedgerEntry

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
BATCH = LedgerEntry("query", 5)
ENDS = {A: 10, B: 20}


def test_a_batch_finds_itself() -> None:
    assert is_written(marked(ENDS, BATCH), BATCH, ENDS)
    assert is_written(marked(ENDS, BATCH, {"clicks": TopicId(bytes(16))}), BATCH, ENDS)


def test_the_first_batch_and_one_after_another_do_not() -> None:
    assert not is_written({}, BATCH, ENDS)
    before = marked({A: 7, B: 9}, LedgerEntry("query", 4))
    assert not is_written(before, BATCH, ENDS)


def test_batches_of_other_queries_and_other_notes_say_nothing() -> None:
    assert not is_written(marked(ENDS, LedgerEntry("other", 5)), BATCH, ENDS)
    assert not is_written({A: CommittedOffset(10, "a note")}, BATCH, ENDS)


@pytest.mark.parametrize(
    "committed",
    [marked(ENDS, LedgerEntry("query", 6)), marked({A: 10, B: 21}, BATCH)],
    ids=["a later batch", "other offsets"],
)
def test_a_copy_that_has_gone_on_is_an_error(
    committed: dict[TopicPartition, CommittedOffset],
) -> None:
    with pytest.raises(LedgerError, match="older than the output, or a copy of it is in use"):
        is_written(committed, BATCH, ENDS)


def test_a_batch_must_start_where_the_output_ends() -> None:
    check_starts({}, {A: 5})
    check_starts(marked({A: 5}, BATCH), {A: 5, B: 0})
    with pytest.raises(LedgerError, match="reads clicks-0 from 5, but the output has it up to 6"):
        check_starts(marked({A: 6}, LedgerEntry("other", 1)), {A: 5})
