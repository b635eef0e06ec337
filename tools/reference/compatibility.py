"""docs/compatibility.md: APIs, clients, KIPs, and what differs from Apache Kafka."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from ottla.server.apis import ANSWERED
from ottla.wire.api import APIS, ApiKey
from tools import apache_kafka
from tools.reference.kips import KIPS
from tools.reference.markdown import MADE_BY, code, table

ROOT = Path(__file__).resolve().parents[2]
KAFKA_APIS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "kafka_4_3_apis.json").read_text()
)
"""As Apache Kafka 4.3 answers ApiVersions; tests/compat asks it."""

_WHY_NOT = {
    "Security": r"Sasl|DelegationToken|UserScram",
    "Quotas": r"ClientQuotas",
    "Share groups (KIP-932)": r"Share",
    "Streams groups (KIP-1071)": r"Streams",
    "Several brokers": r"AlterReplicaLogDirs|UnregisterBroker",
    "KRaft": r"Quorum|RaftVoter|UpdateFeatures",
}


class Client(NamedTuple):
    name: str
    version: str
    """Or the name of the package in requirements/dev.txt."""
    what: str
    tests: str


CLIENTS = (
    Client(
        "confluent-kafka (librdkafka)",
        "confluent-kafka",
        "producers, consumers of both protocols, transactions, admin",
        "tests/compat/test_confluent_kafka.py",
    ),
    Client(
        "Java client",
        apache_kafka.VERSION,
        "producers, consumers of both protocols, transactions, admin",
        "tests/compat/test_groups_java.py",
    ),
    Client(
        "aiokafka",
        "aiokafka",
        "producers, consumers, groups, transactions",
        "tests/compat/test_aiokafka.py",
    ),
    Client(
        "kafka-python",
        "kafka-python",
        "producers, consumers, groups, admin",
        "tests/compat/test_kafka_python.py",
    ),
    Client("kcat", "of the system", "producing, consuming, metadata", "tests/compat/test_kcat.py"),
    Client(
        "Kafka Streams",
        apache_kafka.VERSION,
        "`exactly_once_v2`, with instances that are killed",
        "tests/compat/test_streams.py",
    ),
    Client(
        "Kafka Connect",
        apache_kafka.VERSION,
        "a distributed worker, exactly-once source, killed and started again",
        "tests/compat/test_connect.py",
    ),
    Client(
        "Spark's own Kafka connector",
        "pyspark",
        '`format("kafka")`, reading and writing',
        "tests/pipeline/test_jvm_connector.py",
    ),
    Client(
        "Spark with Ottla's data source",
        "pyspark",
        '`format("ottla")`, in batch and as a stream, exactly once; also with Spark 4.2, and with '
        "Apache Kafka as the broker",
        "tests/pipeline/test_source.py",
    ),
)

_HEAD = f"""\
# Compatibility

Ottla speaks the protocol of Apache Kafka {apache_kafka.VERSION}. `ApiVersions` lists what works, in
the version ranges of Kafka. As with Kafka 4, clients need to be of version 2.1 or newer.

Tests compare Ottla's answers with those of a real Apache Kafka {apache_kafka.VERSION}, run the
clients below against it, and let Kafka's `DumpLogSegments` read the files that it wrote.
"""

_DIFFERENCES = """\
## What differs on purpose

Other defaults and settings without effect are in [configuration.md](configuration.md). What is
missing is in [limits.md](limits.md). Beyond that:

- **Metadata is kept in SQLite**, `coordination.db` in the first log dir, in the layout of Kafka's
  ZooKeeper nodes. There is no KRaft, no `kafka-storage.sh format`, and no controller listener.
- **A log dir of Apache Kafka is taken over.** Topics, partitions and ids are read from its folders.
  Settings of topics are not in there; they start with defaults.
- **The largest timestamp in the header of a batch is believed.** Kafka reads every record and
  rewrites a header that states another. Ottla checks the CRC and walks over the lengths of the
  records; it reads them whole where the topic's settings ask for it (a compacted topic, timestamps,
  another compression).
- **Some malformed batches get another error.** No records at all, a producer id without an epoch,
  and what does not decompress are INVALID_RECORD; an unknown compression is
  UNSUPPORTED_COMPRESSION_TYPE. Kafka never answers the first, takes the second, and says
  UNKNOWN_SERVER_ERROR to the others.
- **A fenced producer is told so** in a case where Kafka 4.3 gives it the epoch of its successor: a
  producer of transactions version 2 that was replaced by an older client.
- **Requests other than Produce are limited to 8 MB**, whatever `socket.request.max.bytes` says.
- **Error messages** may say more than Kafka's.
"""


def compatibility() -> str:
    return "\n".join([MADE_BY + _HEAD, _clients(), _apis(), _missing(), _kips(), _DIFFERENCES])


def _clients() -> str:
    rows = [
        (one.name, _version(one.version), one.what, f"[{Path(one.tests).name}](../{one.tests})")
        for one in CLIENTS
    ]
    tools = ", ".join(code(f"kafka-{name}.sh") for name in tried_tools())
    return (
        "## Clients and tools\n\n"
        + table(("client", "version", "what is tried", "test"), rows)
        + f"\nApache Kafka's command-line tools: {tools}.\n"
    )


def tried_tools() -> list[str]:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    return [name for name in apache_kafka.TOOLS if f'"{name}"' in tests]


def _version(name: str) -> str:
    lock = (ROOT / "requirements" / "dev.txt").read_text()
    found = re.search(rf"^{re.escape(name)}==([^\s;]+)", lock, re.MULTILINE)
    return found[1] if found else name


def _apis() -> str:
    rows = [(str(int(key)), name_of(key), _range(key), _summary(key)) for key in sorted(ANSWERED)]
    return (
        f"## APIs\n\n{len(rows)} of the {len(KAFKA_APIS)} that a broker of Apache Kafka"
        f" {apache_kafka.VERSION} lists, every one in all versions that Kafka lists.\n\n"
        + table(("key", "API", "versions", "what it is for"), rows)
    )


def name_of(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


def _range(key: ApiKey) -> str:
    versions = APIS[key].advertised_versions
    first = APIS[key].versions[0]
    listed_only = f" (below {first} only listed, as Kafka does)" if first > versions[0] else ""
    return f"{versions[0]}-{versions[-1]}{listed_only}"


def _summary(key: ApiKey) -> str:
    """The first sentence of the message's module."""
    module = importlib.import_module(f"ottla.wire.messages.{key.name.lower()}")
    text = " ".join((module.__doc__ or "").split("\n\n")[0].split())
    text = text.removeprefix(f"{name_of(key)}: ").partition(". ")[0].rstrip(".")
    return text[:1].upper() + text[1:]


def _missing() -> str:
    answered = {name_of(key) for key in ANSWERED}
    absent = [name for name in KAFKA_APIS if name not in answered]
    rows = []
    for why, pattern in _WHY_NOT.items():
        names = [name for name in absent if re.search(pattern, name)]
        absent = [name for name in absent if name not in names]
        rows.append((why, ", ".join(names)))
    assert not absent, f"say why these are not answered: {', '.join(absent)}"
    return "Not answered, and not listed:\n\n" + table(("part", "APIs"), rows)


def _kips() -> str:
    rows = [(f"KIP-{kip.number}", kip.what[:1].upper() + kip.what[1:], kip.state) for kip in KIPS]
    return "## KIPs\n\nThose that concern a broker's protocol and files.\n\n" + table(
        ("KIP", "what it asks for", "Ottla"), rows
    )
