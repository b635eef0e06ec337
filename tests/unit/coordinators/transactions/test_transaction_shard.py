from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.coordinators.record import CoordinatorRecord, encode_record
from ottla.coordinators.transactions.records import TransactionLogKey, TransactionLogValue
from ottla.coordinators.transactions.transaction import EPOCH_MAX
from ottla.coordinators.transactions.transaction_shard import NO_PRODUCER, ProducerIdNeeded
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.kernel.slices import at_once
from tests.support.transactions import ID, P0, P1, TIMEOUT_MS, TransactionLog

LAST_EPOCH = EPOCH_MAX - 1
"""Of a producer; its next step needs another producer id."""
CHECK_MS = 10_000
DAY_MS = 24 * 60 * 60 * 1000


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(KafkaError) as raised:
        yield
    assert raised.value.code is code


def at_epoch(epoch: int, *, is_ongoing: bool = False) -> tuple[TransactionLog, ProducerIdAndEpoch]:
    """A producer of that age, as if loaded."""
    value = TransactionLogValue(
        producer_id=500,
        previous_producer_id=500,
        producer_epoch=epoch,
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_status=0,
        transaction_partitions=None,
        transaction_start_timestamp_ms=-1,
    )
    log = TransactionLog()
    key = TransactionLogKey(transactional_id=ID)
    log.log.append(encode_record(CoordinatorRecord(key, value, 1)))
    log.reload()
    producer = ProducerIdAndEpoch(500, epoch)
    if is_ongoing:
        log.add(producer, P0)
    return log, producer


# -- producers ----------------------------------------------------------------------------------


def test_a_new_id_gets_a_producer_id_and_the_first_epoch() -> None:
    log = TransactionLog()
    with pytest.raises(ProducerIdNeeded):
        log.shard.init_producer_id(ID, TIMEOUT_MS)
    assert log.begin() == (1001, 0)
    assert log.begin("another") == (1002, 0)
    assert log.state() == "Empty"


def test_every_start_raises_the_epoch_and_fences_the_one_before() -> None:
    log = TransactionLog()
    first = log.begin()
    second = log.begin()
    assert second == (first.producer_id, first.producer_epoch + 1)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.add(first, P0)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.commit(first)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.commit(first, version=0)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.shard.verify_partitions(ID, first, [P0])


def test_a_start_aborts_what_is_open_and_has_to_come_again_until_that_is_done() -> None:
    log = TransactionLog()
    first = log.begin()
    log.add(first, P0)
    assert log.init() is None
    assert log.state() == "PrepareAbort"
    (aborting,) = log.prepared
    assert aborting.producer == (first.producer_id, first.producer_epoch + 1)
    assert aborting.partitions == {P0}
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.init()
    log.finish()
    # The epoch of the markers is given to nobody.
    assert log.init() == (first.producer_id, first.producer_epoch + 2)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.commit(first)


def test_a_producer_that_goes_on_raises_its_own_epoch() -> None:
    """KIP-360."""
    log = TransactionLog()
    first = log.begin()
    second = log.init(first)
    assert second == (first.producer_id, 1)
    # It did not hear the answer.
    assert log.init(first) == second
    third = log.init(second)
    assert third == (first.producer_id, 2)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.init(first)


def test_a_producer_that_was_replaced_cannot_go_on() -> None:
    log = TransactionLog()
    first = log.begin()
    log.begin()
    with refused(ErrorCode.PRODUCER_FENCED):
        log.init(first)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.init(ProducerIdAndEpoch(999, 0))


def test_a_producer_of_which_nothing_is_known_any_more_goes_on_as_a_new_one() -> None:
    log = TransactionLog()
    assert log.init(ProducerIdAndEpoch(999, 3)) == (1001, 0)


def test_a_restart_forgets_the_last_epoch_and_a_retry_is_fenced() -> None:
    """As in Kafka: it is not in the log."""
    log = TransactionLog()
    first = log.begin()
    second = log.init(first)
    assert second is not None
    log.reload()
    with refused(ErrorCode.PRODUCER_FENCED):
        log.init(first)
    assert log.init(second) == (first.producer_id, 2)


def test_the_time_out_is_that_of_the_last_start() -> None:
    log = TransactionLog()
    log.begin()
    log.init(timeout_ms=5)
    assert log.describe().transaction_timeout_ms == 5


def test_when_epochs_are_used_up_a_start_gets_another_producer_id() -> None:
    log, _ = at_epoch(LAST_EPOCH)
    assert log.init() == (1001, 0)


def test_when_epochs_are_used_up_a_producer_goes_on_with_another_id_and_may_retry() -> None:
    log, last = at_epoch(LAST_EPOCH)
    assert log.init(last) == (1001, 0)
    assert log.init(last) == (1001, 0)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.init(ProducerIdAndEpoch(last.producer_id, LAST_EPOCH - 1))


def test_when_epochs_are_used_up_an_old_producer_stays_fenced() -> None:
    log, last = at_epoch(LAST_EPOCH)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.init(ProducerIdAndEpoch(last.producer_id, LAST_EPOCH - 1))


def test_a_start_that_aborts_the_last_epoch_gets_another_producer_id() -> None:
    log, last = at_epoch(LAST_EPOCH, is_ongoing=True)
    assert log.init() is None
    (aborting,) = log.prepared
    assert aborting.producer == (last.producer_id, EPOCH_MAX)
    log.finish()
    assert log.init() == (1001, 1)


# -- partitions ---------------------------------------------------------------------------------


def test_partitions_are_added_once() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    written = len(log.log)
    log.add(producer, P0)
    assert len(log.log) == written
    log.add(producer, P0, P1)
    assert len(log.log) == written + 1
    (topic,) = log.describe().topics
    assert (topic.topic, topic.partitions) == ("t", [0, 1])


def test_partitions_of_an_unknown_id_or_another_producer_are_refused() -> None:
    log = TransactionLog()
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        log.add(ProducerIdAndEpoch(1, 0), P0)
    producer = log.begin()
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        log.add(ProducerIdAndEpoch(1, 0), P0)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.add(ProducerIdAndEpoch(producer.producer_id, 1), P0)


def test_nothing_is_added_while_the_last_transaction_is_completed() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    following = log.commit(producer)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.add(following, P1)
    # Even for one that is fenced: it will hear that when it comes again.
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.add(producer, P1)
    log.finish()
    log.add(following, P1)


def test_a_leader_learns_which_partitions_belong_to_the_transaction() -> None:
    log = TransactionLog()
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        log.shard.verify_partitions(ID, ProducerIdAndEpoch(1, 0), [P0])
    producer = log.begin()
    log.add(producer, P0, version=0)
    assert log.shard.verify_partitions(ID, producer, [P0, P1]) == {
        P0: ErrorCode.NONE,
        P1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    log.commit(producer, version=0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.shard.verify_partitions(ID, producer, [P0])
    log.finish()
    assert log.shard.verify_partitions(ID, producer, [P0]) == {P0: ErrorCode.TRANSACTION_ABORTABLE}


# -- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_with_version_2_every_end_raises_the_epoch(is_commit: bool) -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    following = log.end(producer, is_commit)
    assert following == (producer.producer_id, producer.producer_epoch + 1)
    (decided,) = log.prepared
    assert decided.producer == following
    assert decided.transaction_version == 2
    assert log.state() == ("PrepareCommit" if is_commit else "PrepareAbort")
    log.finish()
    assert log.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    log.add(following, P1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_before_version_2_the_epoch_stays(is_commit: bool) -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0, version=0)
    assert log.end(producer, is_commit, version=0) == NO_PRODUCER
    (decided,) = log.prepared
    assert decided.producer == producer
    assert decided.transaction_version == 0
    log.finish()
    log.add(producer, P1, version=0)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_is_retried_has_one_effect(is_commit: bool) -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    following = log.end(producer, is_commit)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.end(producer, is_commit)
    log.finish()
    written = len(log.log)
    assert log.end(producer, is_commit) == following
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.end(producer, not is_commit)
    assert len(log.log) == written


@pytest.mark.parametrize("is_commit", [True, False])
def test_before_version_2_an_end_that_is_retried_has_one_effect(is_commit: bool) -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0, version=0)
    log.end(producer, is_commit, version=0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.end(producer, is_commit, version=0)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.end(ProducerIdAndEpoch(producer.producer_id, 9), is_commit, version=0)
    log.finish()
    assert log.end(producer, is_commit, version=0) == NO_PRODUCER
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.end(producer, not is_commit, version=0)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_late_commit_or_abort_does_not_hit_the_next_transaction(is_commit: bool) -> None:
    """The producer gave up waiting for the answer to its first end and went on; the request was
    still on its way. Before KIP-890 both transactions had one epoch, and the second was ended."""
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    following = log.end(producer, is_commit)
    log.finish()
    log.add(following, P1)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.end(producer, is_commit)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.end(producer, not is_commit)
    assert log.state() == "Ongoing"
    assert log.prepared == []


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_of_a_fenced_producer_is_not_taken_for_a_retry(is_commit: bool) -> None:
    """Its successor is an older client, whose ends do not raise the epoch. Kafka 4.3 would tell the
    fenced one of success, and make it what its successor is."""
    log = TransactionLog()
    fenced = log.begin()
    successor = log.begin()
    assert successor.producer_epoch == fenced.producer_epoch + 1
    log.add(successor, P0, version=0)
    log.end(successor, is_commit, version=0)
    log.finish()
    with refused(ErrorCode.PRODUCER_FENCED):
        log.end(fenced, is_commit)
    log.add(successor, P0, version=0)


def test_with_version_2_nothing_can_be_aborted_but_not_committed() -> None:
    log = TransactionLog()
    producer = log.begin()
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.commit(producer)
    # From Empty, and from both complete states.
    for commits_before in (False, False, True):
        if commits_before:
            log.add(producer, P0)
            producer = log.commit(producer)
            log.finish()
        following = log.abort(producer)
        assert following == (producer.producer_id, producer.producer_epoch + 1)
        (decided,) = log.prepared
        assert decided.partitions == frozenset()
        log.finish()
        assert log.abort(producer) == following
        producer = following
        with refused(ErrorCode.INVALID_TXN_STATE):
            log.commit(producer)


def test_before_version_2_there_must_be_something_to_end() -> None:
    log = TransactionLog()
    producer = log.begin()
    for is_commit in (True, False):
        with refused(ErrorCode.INVALID_TXN_STATE):
            log.end(producer, is_commit, version=0)


def test_an_end_of_an_unknown_id_or_another_producer_is_refused() -> None:
    log = TransactionLog()
    stranger = ProducerIdAndEpoch(1, 0)
    for version in (0, 2):
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            log.end(stranger, True, version=version)
    producer = log.begin()
    for version in (0, 2):
        with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            log.end(stranger, True, version=version)
        with refused(ErrorCode.PRODUCER_FENCED):
            log.end(ProducerIdAndEpoch(producer.producer_id, 5), True, version=version)


@pytest.mark.parametrize("is_commit", [True, False])
def test_when_epochs_are_used_up_an_end_gives_another_producer_id(is_commit: bool) -> None:
    log, last = at_epoch(LAST_EPOCH, is_ongoing=True)
    following = log.end(last, is_commit)
    assert following == (1001, 0)
    (decided,) = log.prepared
    assert decided.producer == (last.producer_id, EPOCH_MAX)
    # It may have the answer already, and waits for the markers.
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.add(following, P0)
    log.reload()
    log.finish()
    assert log.end(last, is_commit) == following
    log.add(following, P0)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        log.end(last, is_commit)


def test_before_version_2_epochs_are_not_used_up_by_ends() -> None:
    log, last = at_epoch(LAST_EPOCH, is_ongoing=True)
    log.commit(last, version=0)
    log.finish()
    log.add(last, P0, version=0)


def test_a_transaction_whose_prepare_was_written_and_whose_markers_were_half_sent_is_finished() -> (
    None
):
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0, P1)
    following = log.commit(producer)
    (before,) = log.prepared
    log.reload()
    (after,) = log.prepared
    # All of them again: which had theirs is not known. Epoch and outcome are the same.
    assert after.partitions == {P0, P1}
    assert (after.producer, after.state) == (before.producer, before.state)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        log.init()
    log.finish()
    assert log.state() == "CompleteCommit"
    assert log.commit(producer) == following


def test_what_was_complete_stays_so_when_its_markers_are_reported_again() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    log.commit(producer)
    (decided,) = log.prepared
    log.finish()
    written = len(log.log)
    log.write(log.shard.complete(ID, decided.producer))
    log.write(log.shard.complete("unknown", decided.producer))
    assert len(log.log) == written


def test_markers_of_one_transaction_do_not_complete_another() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    following = log.commit(producer)
    (first,) = log.prepared
    log.finish()
    log.add(following, P0)
    log.abort(following)
    log.write(log.shard.complete(ID, first.producer))
    assert log.state() == "PrepareAbort"


@pytest.mark.parametrize("step", ["init", "add", "end", "complete"])
def test_what_could_not_be_written_did_not_happen(step: str) -> None:
    log = TransactionLog()
    producer = log.begin()
    if step != "init":
        log.add(producer, P0)
    if step == "complete":
        log.commit(producer)
    before = log.describe()
    log.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with refused(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        match step:
            case "init":
                log.init(producer)
            case "add":
                log.add(producer, P1)
            case "end":
                log.commit(producer)
            case "complete":
                log.finish()
    assert log.describe() == before
    assert len(log.prepared) == (step == "complete")
    log.failure = None
    match step:
        case "init":
            assert log.init(producer) == (producer.producer_id, producer.producer_epoch + 1)
        case "add":
            log.add(producer, P1)
        case "end":
            log.commit(producer)
        case "complete":
            log.finish()
            assert log.state() == "CompleteCommit"


# -- time ---------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    log.timers.advance(TIMEOUT_MS)
    assert log.state() == "Ongoing"
    log.timers.advance(CHECK_MS)
    (aborting,) = log.prepared
    assert aborting.producer == (producer.producer_id, producer.producer_epoch + 1)
    log.finish()
    with refused(ErrorCode.PRODUCER_FENCED):
        log.add(producer, P1)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.commit(producer)
    with refused(ErrorCode.PRODUCER_FENCED):
        log.commit(producer, version=0)
    # It may abort what was aborted, and go on.
    assert log.abort(producer) == aborting.producer


def test_nothing_is_watched_while_nothing_is_open() -> None:
    log = TransactionLog()
    producer = log.begin()
    assert log.timers.names == {"expiry"}
    log.add(producer, P0)
    assert log.timers.names == {"expiry", "time-outs"}
    log.commit(producer)
    log.finish()
    log.timers.advance(CHECK_MS)
    assert log.timers.names == {"expiry"}


def test_a_restart_does_not_give_more_time() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    log.timers.advance(TIMEOUT_MS - CHECK_MS)
    log.reload()
    log.timers.advance(2 * CHECK_MS)
    assert log.state() == "PrepareAbort"


def test_an_abort_for_time_that_could_not_be_written_is_tried_again() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    log.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    log.timers.advance(TIMEOUT_MS + CHECK_MS)
    assert log.state() == "Ongoing"
    log.failure = None
    log.timers.advance(CHECK_MS)
    assert log.state() == "PrepareAbort"


def test_an_abort_for_time_comes_too_late_for_what_has_ended() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    log.timers.advance(TIMEOUT_MS + 1)
    log.commit(producer)
    log.write(log.shard.abort_timed_out(ID))
    log.write(log.shard.abort_timed_out("unknown"))
    assert log.state() == "PrepareCommit"


def test_when_epochs_are_used_up_a_time_out_gives_another_producer_id() -> None:
    log, last = at_epoch(LAST_EPOCH, is_ongoing=True)
    log.timers.advance(TIMEOUT_MS + CHECK_MS)
    log.finish()
    assert log.describe().producer_id == 1001
    assert log.init(last) == (1001, 0)


def test_ids_that_nobody_used_for_long_expire() -> None:
    log = TransactionLog()
    log.begin("unused")
    producer = log.begin("open")
    log.add(producer, P0, transactional_id="open")
    log.failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    log.timers.advance(7 * DAY_MS)
    log.failure = None
    log.timers.advance(DAY_MS)
    # What was open timed out when it could be written, and waits for its markers.
    assert sorted(log.listed()) == ["open"]
    with refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
        log.describe("unused")
    log.reload()
    assert sorted(log.listed()) == ["open"]
    assert log.begin("unused").producer_epoch == 0


def test_an_id_in_use_does_not_expire() -> None:
    log = TransactionLog()
    producer = log.begin()
    for _ in range(9):
        log.timers.advance(DAY_MS)
        log.add(producer, P0)
        producer = log.commit(producer)
        log.finish()
    assert log.listed() == [ID]


def test_many_ids_expire_in_slices() -> None:
    log = TransactionLog()
    for number in range(2500):
        log.init(transactional_id=f"tx{number}")
    written = len(log.log)
    log.timers.advance(7 * DAY_MS - 60 * 60 * 1000)
    assert len(log.listed()) == 2500
    log.timers.advance(2 * 60 * 60 * 1000)
    assert log.listed() == []
    assert len(log.log) == written + 2500


# -- to be looked at ----------------------------------------------------------------------------


def test_ids_are_listed_by_state_producer_duration_and_pattern() -> None:
    log = TransactionLog()
    idle = log.begin("idle")
    producer = log.begin("busy")
    log.add(producer, P0, transactional_id="busy")
    log.timers.advance(1000)
    assert sorted(log.listed()) == ["busy", "idle"]
    assert log.listed(state_filters=["Ongoing"]) == ["busy"]
    assert log.listed(state_filters=["Ongoing", "Nonsense"]) == ["busy"]
    assert log.listed(state_filters=["Nonsense"]) == []
    assert log.listed(producer_id_filters=[idle.producer_id]) == ["idle"]
    assert log.listed(duration_filter=999, state_filters=["Ongoing"]) == ["busy"]
    assert log.listed(duration_filter=1000, state_filters=["Ongoing"]) == []
    # In Kafka what never began has been running since 1970.
    assert log.listed(duration_filter=1000) == ["idle"]
    assert log.listed(transactional_id_pattern="b.*") == ["busy"]
    assert log.listed(transactional_id_pattern="us") == []
    assert sorted(log.listed(transactional_id_pattern="")) == ["busy", "idle"]
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        log.listed(transactional_id_pattern="(")


def test_an_id_is_described() -> None:
    log = TransactionLog()
    producer = log.begin()
    begun_ms = log.timers.now_ms()
    log.add(producer, P0)
    log.timers.advance(5)
    described = log.describe()
    assert described.error_code == 0
    assert described.transactional_id == ID
    assert described.transaction_start_time_ms == begun_ms
    assert described.transaction_timeout_ms == TIMEOUT_MS
    assert (described.producer_id, described.producer_epoch) == producer
    with refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
        log.describe("unknown")


# -- loading ------------------------------------------------------------------------------------


def test_a_record_of_a_state_that_is_never_written_is_passed_over() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    bad = CoordinatorRecord(
        TransactionLogKey(transactional_id=ID), TransactionLogValue(transaction_status=6), 1
    )
    log.log.append(encode_record(bad))
    log.reload()
    assert log.state() == "Ongoing"
    log.timers.advance(TIMEOUT_MS + CHECK_MS)
    assert log.state() == "PrepareAbort"


def test_a_marker_in_the_log_itself_is_nothing_to_it() -> None:
    log = TransactionLog()
    producer = log.begin()
    log.add(producer, P0)
    at_once(log.shard.end_transaction(producer.producer_id, True))
    assert log.state() == "Ongoing"
    assert not log.shard.replay_plain(b"key", b"value")
