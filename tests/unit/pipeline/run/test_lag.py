"""What is committed to the group of a query, and what happens when that fails."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.run.lag import GroupCommitter, LagListener, end_offsets
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.socket_broker import HOST, SocketBroker

CLICKS = TopicPartition("clicks", 1)


def answer(error_code: ErrorCode = ErrorCode.NONE) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=1, error_code=error_code)
    topic = OffsetCommitResponseTopic(name="clicks", partitions=[partition])
    return OffsetCommitResponse(topics=[topic])


def prepared(broker: SocketBroker, *answers: OffsetCommitResponse) -> SocketBroker:
    """Gives these answers, and the last one from then on."""
    found = Coordinator(key="any", node_id=1, host=HOST, port=broker.port)
    broker.answers[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(coordinators=[found])
    left = list(answers)
    broker.answers[OffsetCommitRequest] = lambda _: left.pop(0) if len(left) > 1 else left[0]
    return broker


def committer_of(broker: SocketBroker) -> GroupCommitter:
    return GroupCommitter(lambda: BlockingCluster(broker.bootstrap), retry_s=0.01)


def committed(broker: SocketBroker) -> list[tuple[str, str, int, int]]:
    return [
        (request.group_id, topic.name, one.partition_index, one.committed_offset)
        for request in broker.requests(OffsetCommitRequest)
        for topic in request.topics
        for one in topic.partitions
    ]


def said(name: str | None, *ends: object) -> dict[str, Any]:
    sources = [{"endOffset": json.dumps(end), "latestOffset": "null"} for end in ends]
    return {"name": name, "sources": sources}


def progress(name: str | None, *ends: object) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(said(name, *ends))))


def test_the_end_of_a_batch_goes_to_the_group_of_its_query() -> None:
    with prepared(SocketBroker(), answer()) as broker:
        listener = LagListener(f"{HOST}:{broker.port}", {"traffic": "my-group"})
        listener.onQueryStarted(SimpleNamespace(runId="1"))  # type: ignore[arg-type]
        listener.onQueryProgress(progress("another", {"clicks": {"1": 5}}))
        listener.onQueryProgress(progress("traffic", {"clicks": {"1": 7}}))
        listener.onQueryTerminated(SimpleNamespace(runId="1"))  # type: ignore[arg-type]
        listener.close()
        assert committed(broker) == [("my-group", "clicks", 1, 7)]
        (request,) = broker.requests(OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")


def test_without_groups_the_name_of_the_query_is_its_group() -> None:
    with prepared(SocketBroker(), answer()) as broker:
        listener = LagListener(f"{HOST}:{broker.port}")
        listener.onQueryProgress(progress(None, {"clicks": {"1": 5}}))
        listener.onQueryProgress(progress("traffic", {"clicks": {"1": 7}}))
        listener.close()
        assert committed(broker) == [("traffic", "clicks", 1, 7)]


class JavaProgress:
    """Has its JSON, and fails a test that asks Java for anything else: each question takes
    milliseconds, and there are hundreds."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said

    def progress(self) -> JavaProgress:
        return self

    def json(self) -> str:
        return json.dumps(self._said)


def test_java_is_asked_for_a_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Spark's own listener batches end faster than they are told of, and Java keeps them."""
    jvm = SimpleNamespace(PythonStreamingQueryListenerWrapper=lambda listener: listener)
    monkeypatch.setattr(SparkContext, "_jvm", jvm)
    with prepared(SocketBroker(), answer()) as broker:
        listener = LagListener(f"{HOST}:{broker.port}")
        called_by_spark = listener._jlistener
        assert called_by_spark is listener._jlistener
        called_by_spark.onQueryProgress(JavaProgress(said("traffic", {"clicks": {"1": 7}})))
        listener.close()
        assert committed(broker) == [("traffic", "clicks", 1, 7)]


def test_a_failure_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    refused = answer(ErrorCode.UNKNOWN_MEMBER_ID)
    with prepared(SocketBroker(), refused, refused, answer()) as broker:
        committer = committer_of(broker)
        committer.commit("mine", {CLICKS: 7})
        committer.close()
        assert committed(broker) == [("mine", "clicks", 1, 7)] * 3
    (said,) = caplog.records
    assert "group mine" in said.message
    assert "the group has members; a query needs a group of its own" in said.message


def test_a_group_that_is_refused_holds_up_no_other() -> None:
    with SocketBroker() as broker:
        prepared(broker, answer())

        def refuse_theirs(request: OffsetCommitRequest) -> OffsetCommitResponse:
            if request.group_id == "mine":
                return answer()
            # While it is asked, the next batches of both end.
            committer.commit("mine", {CLICKS: 8})
            return answer(ErrorCode.UNKNOWN_MEMBER_ID)

        broker.answers[OffsetCommitRequest] = refuse_theirs
        committer = committer_of(broker)
        committer.commit("theirs", {CLICKS: 7})
        committer.close(timeout_s=1.0)
        assert ("mine", "clicks", 1, 8) in committed(broker)


def test_what_is_not_committed_at_the_end_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with prepared(SocketBroker(), answer(ErrorCode.GROUP_AUTHORIZATION_FAILED)) as broker:
        committer = committer_of(broker)
        committer.commit("mine", {CLICKS: 7})
        with caplog.at_level(logging.WARNING):
            committer.close(timeout_s=0.2)
    assert "the lag of ['mine'] is not up to date" in caplog.records[-1].message


def test_only_topics_count() -> None:
    batch = said(None, {"clicks": {"1": 7}, "@topicIds": {}}, 17, None, {"logOffset": 3})
    assert end_offsets(batch["sources"]) == {CLICKS: 7}
