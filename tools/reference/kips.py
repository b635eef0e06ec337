"""The Kafka Improvement Proposals that the code speaks of: what each asks for, and how far Ottla
goes with it. tests/unit/repo/test_reference.py holds this against the source."""

from __future__ import annotations

from typing import NamedTuple

YES = "yes"
NO_COMPACTION = "not yet: nothing is compacted"
NO_QUOTAS = "not yet: there are no quotas"
NO_TIERED_STORAGE = "no: there is no tiered storage"


class Kip(NamedTuple):
    number: int
    what: str
    state: str = YES


KIPS = (
    Kip(73, "throttles of replication, for reassignments"),
    Kip(74, "a limit to the size of a whole fetch response"),
    Kip(98, "idempotent producers and transactions"),
    Kip(101, "leader epochs, kept with each log"),
    Kip(110, "zstd"),
    Kip(207, "a new leader tells no latest offset that may be old"),
    Kip(219, "throttled clients wait by themselves", f"the pipelines' client; {NO_QUOTAS}"),
    Kip(226, "settings of a broker that change while it runs"),
    Kip(227, "incremental fetch sessions"),
    Kip(229, "deleting groups"),
    Kip(279, "where the leader epoch before the one asked for ends"),
    Kip(290, "ACLs by prefix", "no: there are no ACLs, and the answer says so"),
    Kip(320, "clients with outdated metadata are fenced by leader epochs"),
    Kip(339, "single settings are changed, others stay"),
    Kip(345, "static members of groups"),
    Kip(354, "an upper limit to how long compaction may wait", NO_COMPACTION),
    Kip(360, "producers go on after an error, with a raised epoch"),
    Kip(380, "what the controller meant for a broker before it restarted is refused"),
    Kip(390, "levels of compression"),
    Kip(392, "consumers read from the nearest replica"),
    Kip(394, "members get their id before they join"),
    Kip(405, "tiered storage", NO_TIERED_STORAGE),
    Kip(429, "cooperative rebalancing"),
    Kip(430, "which operations the client is allowed to do", "all of them: there are no ACLs"),
    Kip(447, "exactly once with one producer for many input partitions"),
    Kip(455, "moving partitions to other replicas"),
    Kip(460, "elections of leaders on request, unclean ones too"),
    Kip(464, "partitions and replication factor by the broker's default"),
    Kip(467, "which records made a batch fail"),
    Kip(482, "tagged fields and compact lengths"),
    Kip(496, "deleting committed offsets"),
    Kip(497, "leaders ask the controller to change the ISR"),
    Kip(511, "clients tell name and version; ApiVersions of the future is answered"),
    Kip(516, "topic ids"),
    Kip(518, "groups by state"),
    Kip(525, "settings of a topic in the answer to its creation"),
    Kip(534, "tombstones and markers of compacted topics expire", NO_COMPACTION),
    Kip(559, "protocol type and name in JoinGroup and SyncGroup"),
    Kip(569, "documentation and types of settings"),
    Kip(570, "StopReplica is fenced by leader epochs"),
    Kip(588, "a fenced producer can tell that from a time-out"),
    Kip(595, "a fetch tells where two logs part; KRaft", "the first; there is no KRaft"),
    Kip(599, "a quota on creating and deleting topics", NO_QUOTAS),
    Kip(618, "exactly-once source connectors of Kafka Connect"),
    Kip(664, "finding and aborting hanging transactions"),
    Kip(699, "many coordinators in one request"),
    Kip(700, "DescribeCluster"),
    Kip(
        704,
        "recovery after an unclean election of a leader",
        "no: it is told, and nothing is recovered",
    ),
    Kip(709, "offsets of many groups in one request"),
    Kip(714, "metrics of clients", "subscriptions are kept and listed; no metrics are asked for"),
    Kip(730, "brokers get producer ids from the controller"),
    Kip(734, "the offset of the largest timestamp"),
    Kip(792, "the generation in a cooperative subscription"),
    Kip(797, "IPv4 and IPv6 on one port"),
    Kip(800, "reasons for joining and leaving a group"),
    Kip(814, "a static leader that comes back keeps the assignment"),
    Kip(827, "size and free space of log dirs"),
    Kip(841, "topic ids when the ISR changes; brokers that stop do not join it"),
    Kip(848, "the consumer protocol: the broker assigns"),
    Kip(853, "KRaft voters that change", "no: there is no KRaft"),
    Kip(860, "moving partitions without changing the replication factor"),
    Kip(866, "from ZooKeeper to KRaft", "no: there is no KRaft"),
    Kip(881, "racks of classic members, for their assignors"),
    Kip(890, "transactions version 2: no hanging transactions"),
    Kip(893, "structs that may be null"),
    Kip(903, "followers are fenced by their broker's epoch"),
    Kip(915, "tagged fields in coordinators' records, so that older brokers can read them"),
    Kip(919, "controllers as endpoints", "no: the brokers are the only endpoints"),
    Kip(932, "share groups", "not yet"),
    Kip(939, "two-phase commit", "as in Kafka 4.3: not listed, since it is unstable"),
    Kip(951, "the new leader in an error"),
    Kip(966, "partitions page by page; eligible leader replicas"),
    Kip(994, "transactions that have run for long"),
    Kip(1043, "DescribeGroups with an error for a group that does not exist"),
    Kip(1066, "log dirs that take no new partitions", "no: all of them take new ones"),
    Kip(1071, "Streams groups", "not yet; Kafka Streams runs with the classic protocol"),
    Kip(1073, "fenced brokers in DescribeCluster", "no broker is ever fenced"),
    Kip(1075, "a time-out in ListOffsets"),
    Kip(1082, "members make their own id"),
    Kip(1099, "which protocol each member of a group speaks"),
    Kip(1101, "a hash of the metadata that a group has seen"),
    Kip(1142, "listing the resources that have settings"),
    Kip(1152, "transactions by a regular expression"),
    Kip(1161, "lists in settings: no empty and no repeated items"),
    Kip(1166, "high watermarks in fetches of followers", "taken, not used"),
    Kip(1228, "markers of transactions version 2"),
    Kip(1251, "the epoch of each assigned partition, so that late commits are taken"),
    Kip(1263, "assignments of large groups are made less often"),
)
