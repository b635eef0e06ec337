"""One kind of work a file. `ALL` is the order in which they run."""

from bench.benchmark import Benchmark
from bench.benchmarks.cluster_latency import ClusterLatency
from bench.benchmarks.cluster_produce import ClusterProduce
from bench.benchmarks.cold_read import ColdRead
from bench.benchmarks.controller import Controller
from bench.benchmarks.fail_over import FailOver
from bench.benchmarks.first_record import FirstRecord
from bench.benchmarks.follower_catch_up import FollowerCatchUp
from bench.benchmarks.group_commits import GroupCommits
from bench.benchmarks.group_rebalance import GroupRebalance
from bench.benchmarks.java_consume import JavaConsume
from bench.benchmarks.java_produce import JavaProduce
from bench.benchmarks.large_requests import LargeRequests
from bench.benchmarks.librdkafka import Librdkafka
from bench.benchmarks.offsets_load import OffsetsLoad
from bench.benchmarks.pipeline_start import PipelineStart
from bench.benchmarks.scaling import Scaling
from bench.benchmarks.small_requests import SmallRequests
from bench.benchmarks.spark import Spark
from bench.benchmarks.start import Start
from bench.benchmarks.sync_latency import SyncLatency
from bench.benchmarks.transactions import Transactions
from bench.benchmarks.two_brokers import TwoBrokers

ALL: tuple[type[Benchmark], ...] = (
    Start,
    FirstRecord,
    JavaProduce,
    JavaConsume,
    Librdkafka,
    SmallRequests,
    SyncLatency,
    GroupRebalance,
    GroupCommits,
    Transactions,
    OffsetsLoad,
    Spark,
    PipelineStart,
    ColdRead,
    LargeRequests,
    ClusterProduce,
    ClusterLatency,
    FollowerCatchUp,
    FailOver,
    Controller,
    TwoBrokers,
    # Last: 2,000 partitions are removed after it, and Apache Kafka does that a minute later.
    Scaling,
)
