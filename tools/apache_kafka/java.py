"""Runs Apache Kafka's own command-line tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.apache_kafka.assembly import libs

TOOLS = {
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "storage": "kafka.tools.StorageTool",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""Names as in `kafka-NAME.sh`."""

_LOG4J = Path(__file__).resolve().parent / "log4j2.properties"

# For a tool that runs a second or two, starting is what costs.
_QUICK_START = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
_TOOL_HEAP_MB = 128


class ToolFailed(Exception):
    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        super().__init__(
            f"{' '.join(done.args)}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        self.done = done


def java_command(
    class_name: str, *args: str, options: list[str], log_level: str = "WARN"
) -> list[str]:
    logging = [f"-Dlog4j2.configurationFile={_LOG4J}", f"-Dlog.level={log_level}"]
    return ["java", *options, *logging, "-cp", f"{libs()}/*", class_name, *args]


def quick_command(class_name: str, *args: str) -> list[str]:
    """For a program that should start quickly rather than run fast."""
    return java_command(class_name, *args, options=[f"-Xmx{_TOOL_HEAP_MB}M", *_QUICK_START])


def tool_command(name: str, *args: str, heap_mb: int | None = None) -> list[str]:
    """The command for one of `TOOLS`. With `heap_mb` it gets that heap and the JVM's full
    compilers, for tools whose speed is measured; else it starts quickly."""
    if heap_mb is not None:
        return java_command(TOOLS[name], *args, options=[f"-Xmx{heap_mb}M"])
    return quick_command(TOOLS[name], *args)


def run_tool(
    name: str, *args: str, stdin: str = "", timeout_s: float = 60, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Its stdout is the answer, its stderr has what the client logged. `ToolFailed` when it ends
    with another code than 0, unless `check` is off."""
    return _run(quick_command(TOOLS[name], *args), stdin, timeout_s, check)


def run_class(
    class_name: str, *args: str, stdin: str = "", timeout_s: float = 60, check: bool = True
) -> subprocess.CompletedProcess[str]:
    return _run(quick_command(class_name, *args), stdin, timeout_s, check)


def _run(
    command: list[str], stdin: str, timeout_s: float, check: bool
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if check and done.returncode != 0:
        raise ToolFailed(done)
    return done
