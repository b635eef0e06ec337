"""A cluster as code that waits sees it: who leads what, and requests that are tried again.

Two ways to ask. `ask` sends one request once, and says what went wrong. `retrying` runs such steps
until they succeed, or the time is over, or the reason is one that no waiting mends; between tries
it forgets what it knew about leaders and coordinators, since that is what a failure mostly means.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from ottla.client.blocking import (
    BlockingConnection,
    BrokerUnreachable,
    ClientError,
    Deadline,
    GaveUp,
    Pending,
)
from ottla.client.cluster import TRANSACTION_COORDINATOR, Node
from ottla.client.versions import Versions, listed_versions, newest_common
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_text
from ottla.records.errors import CorruptRecord
from ottla.wire.api import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.schema import Request, Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)

GROUP_COORDINATOR = 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, EARLIEST = -1, -2
"""Timestamps that stand for an offset, in `list_offsets`."""

_TOPIC_IDS_SINCE = 12
"""The first version of Metadata in which a topic may be asked for by its id alone."""
_MANY_COORDINATORS_SINCE = 4

_CONNECT_TIMEOUT_S = 10.0
"""A host that does not answer at all must not use up the time that others could be tried in."""
_BACKOFF_S_MIN = 0.05
_BACKOFF_S_MAX = 1.0
_ABSENT_S_MAX = 10.0
"""How long a topic may be unknown to a broker that answers: one that has just started learns of its
topics within seconds. After that it is gone."""

RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What Kafka's clients try again when a broker says so; what we find to be corrupt ourselves will
be the same the next time. UNKNOWN_TOPIC_OR_PARTITION among them: a broker that has just
started does not know its topics yet. Whoever knows better does not let it get here."""


_ABSENT = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class PartitionLeader(NamedTuple):
    leader: Node | None
    """None while there is none."""
    leader_epoch: int


class Topic(NamedTuple):
    name: str
    topic_id: TopicId
    """NO_TOPIC_ID from a broker before Kafka 2.8."""
    partitions: dict[int, PartitionLeader]


class OffsetAndTimestamp(NamedTuple):
    offset: int
    """-1 where no record is as new as the timestamp that was asked for."""
    timestamp: int
    leader_epoch: int


class _Broker(NamedTuple):
    connection: BlockingConnection
    versions: Versions


class BlockingCluster:
    """Made by whoever asks a cluster, and closed by it. For one thread. Keeps one connection to
    each broker that was asked; one that was lost is opened again with the next request.

    `request_timeout_s` is for one request, `retry_timeout_s` for all tries of one step, and
    `retry_option` is what whoever reads an error has to raise to wait longer."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        *,
        client_id: str = "ottla",
        request_timeout_s: float = 30.0,
        retry_timeout_s: float = 60.0,
        retry_option: str = "retry_timeout_s",
        rng: random.Random | None = None,
    ) -> None:
        assert bootstrap, "there is at least one address to begin with"
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._retry_timeout_s = retry_timeout_s
        self._retry_option = retry_option
        self._rng = rng or random.Random()
        self._nodes: dict[int, Node] = {}
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._opened: dict[tuple[str, int], _Broker] = {}

    def __enter__(self) -> BlockingCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._bootstrap)

    def close(self) -> None:
        for broker in self._opened.values():
            broker.connection.close()
        self._opened.clear()

    # -- one request, once --------------------------------------------------------------------

    def ask(
        self,
        request: Request,
        response_class: type[R],
        *,
        node: Node | None = None,
        version_max: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Any broker, or this one. Raises ClientError, and KafkaError where the broker does not
        know the API, or no version of it that can say what the request does."""
        deadline = Deadline(timeout_s or self._request_timeout_s)
        broker = self._broker(node, deadline)
        version = newest_common(request.API_KEY, broker.versions, version_max)
        return broker.connection.call(request, response_class, version, deadline)

    def begin(
        self,
        request: Request,
        response_class: type[R],
        *,
        node: Node,
        version_max: int | None = None,
    ) -> InFlight[R]:
        """Sends, and returns at once: what is done meanwhile costs no time."""
        deadline = Deadline(self._request_timeout_s)
        broker = self._broker(node, deadline)
        version = newest_common(request.API_KEY, broker.versions, version_max)
        pending = broker.connection.send(request, response_class, version, deadline)
        return InFlight(broker.connection, pending, self._request_timeout_s, version)

    def versions(self, node: Node | None = None) -> Versions:
        """What it speaks, by API key."""
        return self._broker(node, Deadline(self._request_timeout_s)).versions

    def finalized_feature(self, name: str, node: Node | None = None) -> int:
        """The level of a feature, such as `transaction.version`; 0 where there is none."""
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
        response = self.ask(request, ApiVersionsResponse, node=node)
        for feature in response.finalized_features:
            if feature.name == name:
                return feature.max_version_level
        return 0

    # -- again, until it works ----------------------------------------------------------------

    def retrying(self, what: str, attempt: Callable[[], T], *, timeout_s: float | None = None) -> T:
        """`what` is for the error that says that the time is over: "to read clicks-0", say."""
        deadline = Deadline(self._retry_timeout_s if timeout_s is None else timeout_s)
        backoff_s = _BACKOFF_S_MIN
        absent: Deadline | None = None
        while True:
            try:
                return attempt()
            except ClientError as error:
                problem: ClientError | KafkaError = error
            except KafkaError as error:
                if error.code not in RETRIABLE or isinstance(error, CorruptRecord):
                    raise
                problem = error
            self.forget()
            if isinstance(problem, KafkaError) and problem.code in _ABSENT:
                absent = absent or deadline.at_most(_ABSENT_S_MAX)
                if absent.is_over:
                    raise self._gave_up(what, problem, absent) from problem
            else:
                absent = None
            if not deadline.pause(backoff_s * self._rng.uniform(0.8, 1.2)):
                raise self._gave_up(what, problem, deadline) from problem
            backoff_s = min(2 * backoff_s, _BACKOFF_S_MAX)

    def forget(self) -> None:
        """What was known about leaders and coordinators. Connections stay."""
        self._topics.clear()
        self._coordinators.clear()

    def _gave_up(self, what: str, problem: ClientError | KafkaError, deadline: Deadline) -> GaveUp:
        code = problem.code if isinstance(problem, KafkaError) else None
        reason = f"{code.name}: {problem}" if code is not None else str(problem)
        return GaveUp(
            f"gave up {what} after {deadline.total_s:.3g} s (see {self._retry_option}); "
            f"bootstrap.servers is {self.bootstrap_servers}; last: {reason}",
            code,
        )

    # -- topics and their leaders -------------------------------------------------------------

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """Those of these that exist, or all if None, asked anew."""
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        if wanted == []:
            return {}
        return self.retrying("to ask for metadata", lambda: self._ask_topics(wanted))

    def topics_by_id(self, topic_ids: Iterable[TopicId]) -> dict[TopicId, Topic]:
        """Those of these that exist. Needs a broker that can be asked so (Kafka 3.1)."""
        wanted = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        if not wanted:
            return {}

        def attempt() -> dict[TopicId, Topic]:
            if _TOPIC_IDS_SINCE not in self.versions().get(ApiKey.METADATA, range(0)):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "the broker cannot be asked for topics by id: it is older than Kafka 3.1",
                )
            return {topic.topic_id: topic for topic in self._ask_topics(wanted).values()}

        return self.retrying("to ask for metadata", attempt)

    def leader(self, topic_partition: TopicPartition) -> tuple[Topic, Node, int]:
        """The topic, the leader and its epoch, as last heard. Raises KafkaError and ClientError:
        it is a step for `retrying`."""
        topic = self._topics.get(topic_partition.topic)
        if topic is None:
            wanted = [MetadataRequestTopic(name=topic_partition.topic)]
            topic = self._ask_topics(wanted).get(topic_partition.topic)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"there is no topic {topic_partition.topic}",
                )
        partition = topic.partitions.get(topic_partition.partition)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic.name} has {len(topic.partitions)} partitions, "
                f"{topic_partition.partition} is none of them",
            )
        if partition.leader is None:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader at present"
            )
        return topic, partition.leader, partition.leader_epoch

    def node(self, node_id: int) -> Node | None:
        """A broker as last heard of; None where it is not alive."""
        return self._nodes.get(node_id)

    def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_COMMITTED,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """For each partition the first offset whose record is not older, or LATEST, or EARLIEST.
        With READ_COMMITTED the latest is before the first transaction that is open."""
        found: dict[TopicPartition, OffsetAndTimestamp] = {}

        def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
            missing = {key: value for key, value in timestamps.items() if key not in found}
            by_leader: dict[Node, dict[TopicPartition, int]] = {}
            self._learn(key.topic for key in missing)
            for key, timestamp in missing.items():
                _, node, _ = self.leader(key)
                by_leader.setdefault(node, {})[key] = timestamp
            problems: list[KafkaError] = []
            for node, wanted in by_leader.items():
                problems += self._ask_offsets(node, wanted, isolation_level, found)
            if problems:
                raise min(problems, key=lambda problem: problem.code in RETRIABLE)
            return found

        return self.retrying("to ask for offsets", attempt, timeout_s=timeout_s)

    def coordinator(self, key_type: int, key: str) -> Node:
        """Of a group (GROUP_COORDINATOR) or of a transactional id (TRANSACTION_COORDINATOR). A
        step for `retrying`."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        is_batched = _MANY_COORDINATORS_SINCE in self.versions().get(
            ApiKey.FIND_COORDINATOR, range(0)
        )
        request = FindCoordinatorRequest(
            key="" if is_batched else key,
            key_type=key_type,
            coordinator_keys=[key] if is_batched else [],
        )
        response = self.ask(request, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            kind = "transactional id" if key_type == TRANSACTION_COORDINATOR else "group"
            raise KafkaError(
                ErrorCode(found.error_code),
                found.error_message or f"no coordinator for {kind} {key}",
            )
        node = self._coordinators[key_type, key] = Node(found.node_id, found.host, found.port)
        return node

    # -- inside -------------------------------------------------------------------------------

    def _ask_topics(self, wanted: list[MetadataRequestTopic] | None) -> dict[str, Topic]:
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = self.ask(request, MetadataResponse)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), "the broker refuses metadata")
        self._nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port)
            for broker in response.brokers
        }
        found: dict[str, Topic] = {}
        for topic in response.topics:
            if topic.error_code in _ABSENT:
                continue
            if topic.error_code:
                name = topic.name or topic_id_text(topic.topic_id)
                raise KafkaError(ErrorCode(topic.error_code), f"topic {name}")
            assert topic.name is not None, "a topic that exists has a name"
            found[topic.name] = self._topics[topic.name] = self._topic(topic.name, topic)
        return found

    def _topic(self, name: str, topic: MetadataResponseTopic) -> Topic:
        partitions = {
            partition.partition_index: PartitionLeader(
                self._nodes.get(partition.leader_id), partition.leader_epoch
            )
            for partition in topic.partitions
        }
        return Topic(name, topic.topic_id or NO_TOPIC_ID, partitions)

    def _learn(self, names: Iterable[str]) -> None:
        """All that is not known yet, in one request."""
        unknown = sorted({name for name in names if name not in self._topics})
        if unknown:
            self._ask_topics([MetadataRequestTopic(name=name) for name in unknown])

    def _ask_offsets(
        self,
        node: Node,
        wanted: dict[TopicPartition, int],
        isolation_level: int,
        found: dict[TopicPartition, OffsetAndTimestamp],
    ) -> list[KafkaError]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for (name, partition), timestamp in wanted.items():
            topics.setdefault(name, []).append(
                ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()
            ],
            timeout_ms=int(self._request_timeout_s * 1000),
        )
        problems: list[KafkaError] = []
        for topic in self.ask(request, ListOffsetsResponse, node=node).topics:
            for answer in topic.partitions:
                key = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code:
                    code = ErrorCode(answer.error_code)
                    problems.append(
                        KafkaError(code, f"offsets of {key} from {node.host}:{node.port}")
                    )
                else:
                    found[key] = OffsetAndTimestamp(
                        answer.offset, answer.timestamp, answer.leader_epoch
                    )
        return problems

    def _broker(self, node: Node | None, deadline: Deadline) -> _Broker:
        if node is not None:
            return self._open(node.host, node.port, deadline)
        for broker in self._opened.values():
            if not broker.connection.is_lost:
                return broker
        known = [(node.host, node.port) for node in self._nodes.values()]
        problems: list[ClientError] = []
        for host, port in dict.fromkeys([*self._bootstrap, *known]):
            try:
                return self._open(host, port, deadline)
            except ClientError as error:
                problems.append(error)
        raise BrokerUnreachable("; ".join(str(problem) for problem in problems))

    def _open(self, host: str, port: int, deadline: Deadline) -> _Broker:
        broker = self._opened.get((host, port))
        if broker is not None and not broker.connection.is_lost:
            return broker
        connecting = deadline.at_most(_CONNECT_TIMEOUT_S)
        connection = BlockingConnection(host, port, client_id=self._client_id, deadline=connecting)
        try:
            # Version 0: there is no broker that would not understand it.
            response = connection.call(ApiVersionsRequest(), ApiVersionsResponse, 0, deadline)
            if response.error_code:
                raise KafkaError(
                    ErrorCode(response.error_code), f"{host}:{port} refuses to say what it speaks"
                )
        except BaseException:
            connection.close()
            raise
        broker = self._opened[host, port] = _Broker(connection, listed_versions(response))
        return broker


class InFlight(NamedTuple, Generic[R]):
    """A request that was sent. `wait` once."""

    connection: BlockingConnection
    pending: Pending[R]
    timeout_s: float
    version: int

    def wait(self) -> R:
        return self.connection.wait(self.pending, Deadline(self.timeout_s))
