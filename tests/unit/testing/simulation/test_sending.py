from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch
from ottla.records.batch import parse_header
from ottla.testing.history.events import Acknowledged
from ottla.testing.simulation.client import Refused
from ottla.testing.simulation.sending import Sequences, acknowledge, send_batch, send_batches
from ottla.wire.messages.produce import PartitionProduceResponse
from tests.support.quiet_cluster import T0, T1, QuietCluster, with_quiet_cluster


def test_sequences_go_on_in_each_partition() -> None:
    sequences = Sequences(ProducerIdAndEpoch(7, 1))
    first = parse_header(sequences.batch(T0, ["a", "b"], 0))
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (7, 1, 0)
    assert parse_header(sequences.batch(T0, ["c"], 0)).base_sequence == 2
    other = parse_header(sequences.batch(T1, ["d"], 0, is_transactional=True))
    assert other.base_sequence == 0
    assert other.is_transactional


def test_a_batch_is_sent_and_told_to_the_history() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        batch = Sequences(ProducerIdAndEpoch(7, 0)).batch(T0, ["a", "b"], quiet.now_ms())
        for _ in range(2):  # The second time the broker has it already.
            answer = await send_batch(client, T0, batch)
            assert answer.base_offset == 0
        acknowledge(client, ["a", "b"], answer)
        duplicate = PartitionProduceResponse(error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        acknowledge(client, ["c"], duplicate)
        assert quiet.events(Acknowledged) == [
            Acknowledged("c", "a", 0),
            Acknowledged("c", "b", 1),
            Acknowledged("c", "c", None),
        ]
        client.close()

    with_quiet_cluster(test)


def test_batches_in_flight_together_are_taken_in_their_order_or_refused() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        sequences = Sequences(ProducerIdAndEpoch(7, 0))
        batches = [sequences.batch(T0, [value], quiet.now_ms()) for value in "abcdef"]
        answers = await send_batches(client, T0, batches[:4])
        assert [getattr(answer, "base_offset", answer) for answer in answers] == [0, 1, 2, 3]
        refused, taken = await send_batches(client, T0, [batches[5], batches[4]])
        assert isinstance(refused, Refused)
        assert refused.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert not isinstance(taken, Exception)
        leader = await client.leader_of(T0)
        quiet.cluster.kill(leader)
        assert all(isinstance(each, OSError) for each in await send_batches(client, T0, batches))
        client.close()

    with_quiet_cluster(test)
