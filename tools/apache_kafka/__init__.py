"""Apache Kafka itself, from Maven Central: the tools and the broker that Ottla is compared with.

For tests and for bench (both run with the root of the repository on `sys.path`):

    from tools.apache_kafka import ApacheKafkaBroker, libs, missing, run_tool, tool_command

    missing()                        # None, or a sentence that says what is not installed
    libs()                           # folder of jars, in .cache/; assembled at the first call
    run_tool("topics", "--bootstrap-server", bootstrap, "--list").stdout
    tool_command("producer-perf", ..., heap_mb=512)          # the argv, to run it yourself
    with ApacheKafkaBroker(folder) as kafka:                 # KRaft, one node, Kafka's own defaults
        kafka.bootstrap, kafka.pid, kafka.log_dir, kafka.log_text()
        kafka.stop(); kafka.start()                          # same port, same data
        kafka.kill()
    ApacheKafkaBroker(folder, settings={"log.flush.interval.messages": "1"}, heap_mb=1024)
    ApacheKafkaBroker(folder, joins=kafka)                   # a second broker of its cluster
    ApacheKafkaBroker(folder, member=Membership(quorum, 1))  # one of Quorum.of(3)
    run_class("org.apache.kafka.tools.TopicCommand", ...)    # any class with a main
    quick_command("WordCount.java", ...)                     # or a program of ours, to run it
                                                             # yourself; also Streams and Connect
"""

from tools.apache_kafka.assembly import VERSION, libs, missing
from tools.apache_kafka.broker import ApacheKafkaBroker, Membership, Quorum
from tools.apache_kafka.java import (
    TOOLS,
    ToolFailed,
    java_command,
    quick_command,
    run_class,
    run_tool,
    tool_command,
)

__all__ = [
    "TOOLS",
    "VERSION",
    "ApacheKafkaBroker",
    "Membership",
    "Quorum",
    "ToolFailed",
    "java_command",
    "libs",
    "missing",
    "quick_command",
    "run_class",
    "run_tool",
    "tool_command",
]
