"""How far queries are, said to Kafka: the offsets that a query has read up to are committed to a
consumer group, so that every tool which shows the lag of groups shows that of queries. This module
needs Spark.

For queries of your own it is one line, before they start:

    spark.streams.addListener(LagListener("localhost:9092", {"my-query": "my-group"}))

It is for showing only: a query starts from its checkpoint, never from its group.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from ottla.client.blocking import ClientError
from ottla.client.blocking_cluster import BlockingCluster
from ottla.client.blocking_groups import CommittedOffset, commit_offsets
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.pipeline.source.given_options import CONNECTION_OPTIONS, Connection, GivenOptions
from ottla.pipeline.source.offsets import Position

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger(__name__)

_RETRY_S = 5.0
_CLOSE_S = 10.0

Offsets = Mapping[TopicPartition, int]


class QueryWatcher(StreamingQueryListener):
    """A listener that knows when it has heard everything: Spark tells of the last batch of a query
    after `awaitTermination` has returned. Its methods are called on a thread of Spark's, one after
    another, and must return soon."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[str] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        with self._changed:
            self._running.add(str(event.runId))

    def on_progress(self, said: dict[str, Any]) -> None:
        """The JSON of a StreamingQueryProgress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.on_progress(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._changed:
            self._running.discard(str(event.runId))
            self._changed.notify_all()

    def wait_until_ended(self, timeout_s: float = _CLOSE_S) -> bool:
        """Until it has heard of the end of every query that it heard start."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_s)

    @functools.cached_property
    def _jlistener(self) -> Any:
        from pyspark import SparkContext

        assert SparkContext._jvm is not None, "a listener is added to a session"
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(_ReadsJson(self))


class _ReadsJson(JStreamingQueryListener):
    """What Spark calls, by way of py4j. Spark's own class asks Java for every number of a batch, a
    few hundred with RocksDB: batches of four queries ended faster than they were told of, and of
    each one that waits to be told of Java keeps the plans."""

    def __init__(self, watcher: QueryWatcher) -> None:
        super().__init__(watcher)
        self._watcher = watcher

    def onQueryProgress(self, jevent: Any) -> None:
        self._watcher.on_progress(json.loads(jevent.progress().json()))


class LagListener(QueryWatcher):
    """Commits where each finished batch ended. `groups` has the group of each query, by its name;
    queries that it does not name are not committed. Without it the group of a query has the
    query's name, and queries without a name are left out.

    Made by whoever owns the session, and closed by it where the program ends by itself. It never
    fails a query: what goes wrong is logged, and tried again."""

    def __init__(self, bootstrap: str, groups: Mapping[str, str] | None = None) -> None:
        super().__init__()
        given = GivenOptions({"kafka.bootstrap.servers": bootstrap}, CONNECTION_OPTIONS)
        self._groups = groups
        self._committer = GroupCommitter(Connection.parse(given).cluster)

    def on_progress(self, said: dict[str, Any]) -> None:
        name = said.get("name")
        group = name if self._groups is None else self._groups.get(name or "")
        if group:
            self.commit(group, end_offsets(said["sources"]))

    def commit(self, group: str, offsets: Offsets) -> None:
        self._committer.commit(group, offsets)

    def close(self) -> None:
        """Waits a little for what is not committed yet. Call it when the queries have ended."""
        self.wait_until_ended()
        self._committer.close()


class GroupCommitter:
    """Commits on a thread of its own, and of each group the newest offsets only: while a broker is
    away they replace one another. Owned by a LagListener; a crash loses what the next batch
    commits again."""

    def __init__(
        self, new_cluster: Callable[[], BlockingCluster], *, retry_s: float = _RETRY_S
    ) -> None:
        self._new_cluster = new_cluster
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._waiting: dict[str, Offsets] = {}
        self._busy: set[str] = set()
        self._is_closed = False
        self._failing: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="ottla-lag", daemon=True)
        self._thread.start()

    def commit(self, group: str, offsets: Offsets) -> None:
        """Returns at once."""
        if offsets:
            with self._changed:
                self._waiting[group] = offsets
                self._changed.notify_all()

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Gives up what is not committed by then."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)
            left = sorted({*self._waiting, *self._busy})
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if left:
            _log.warning("the lag of %s is not up to date: it could not be committed", left)

    def _run(self) -> None:
        with self._new_cluster() as cluster:
            while True:
                with self._changed:
                    self._busy.clear()
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._waiting or self._is_closed)
                    if self._is_closed:
                        return
                    # The one that waits longest: the newest may be one that always fails.
                    group = next(iter(self._waiting))
                    offsets = self._waiting.pop(group)
                    self._busy.add(group)
                self._commit(cluster, group, offsets)

    def _commit(self, cluster: BlockingCluster, group: str, offsets: Offsets) -> None:
        wanted = {where: CommittedOffset(offset) for where, offset in offsets.items()}
        try:
            commit_offsets(cluster, group, wanted)
        except (ClientError, KafkaError) as error:
            self._tell(group, error)
            with self._changed:
                # What came in the meantime is newer.
                self._waiting.setdefault(group, offsets)
                self._changed.wait_for(lambda: self._is_closed, self._retry_s)
        else:
            self._failing.discard(group)

    def _tell(self, group: str, error: Exception) -> None:
        """Once, until it works again."""
        if group in self._failing:
            return
        self._failing.add(group)
        reason = str(error)
        if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            reason = "the group has members; a query needs a group of its own"
        _log.warning("the lag of group %s cannot be committed, going on trying: %s", group, reason)


def end_offsets(sources: list[Any]) -> dict[TopicPartition, int]:
    """Where a batch ended, of all sources of the query that read topics: ours and Spark's own."""
    return _offsets(source.get("endOffset") for source in sources)


def latest_offsets(sources: list[Any]) -> dict[TopicPartition, int]:
    """Where the topics ended then."""
    return _offsets(source.get("latestOffset") for source in sources)


def _offsets(texts: Any) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for text in texts:
        try:
            value = json.loads(text) if isinstance(text, str) else text
            found |= Position.from_json(value).offsets
        except (ValueError, TypeError, AttributeError):
            continue  # files, sockets and the like count otherwise
    return found
