"""The data source `ottla` of Spark: `spark.read.format("ottla")`. This module needs Spark.

Rows are those of Spark's own Kafka connector. The driver decides which offsets are read; each task
then reads one range of one partition, from its leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.client.blocking import GaveUp
from ottla.client.blocking_cluster import BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.pipeline.fetcher import DataLoss, Fetcher
from ottla.pipeline.offsets import OffsetRange, resolve_ranges, split
from ottla.pipeline.options import RETRY_OPTION, OptionError, ReadOptions, parse_columns

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}

_TOPIC_IS_GONE = frozenset(
    {
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class OttlaDataSource(DataSource):
    """Made by Spark, in processes of its own and as often as it likes: what it holds is the
    options, as they were given."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        return StructType([StructField(one, _TYPES[one]) for one in parse_columns(self.options)])

    def reader(self, schema: StructType) -> BatchReader:
        if schema != self.schema():
            raise OptionError(
                "schema", "a record has the columns it has", "remove it, and set columns instead"
            )
        return BatchReader(self.options)


class BatchReader(DataSourceReader):
    """Made on the driver, and pickled to every task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = ReadOptions.parse(options)

    def partitions(self) -> list[InputPartition]:
        with new_cluster(self._options) as cluster:
            ranges = resolve_ranges(cluster, self._options)
        return [InputPartition(one) for one in split(ranges, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there are no partitions Spark makes one up, whose value is None.
        return iter(()) if partition.value is None else read_range(self._options, partition.value)


def new_cluster(options: ReadOptions) -> BlockingCluster:
    return BlockingCluster(
        options.bootstrap,
        client_id=options.client_id,
        request_timeout_s=options.request_timeout_s,
        retry_timeout_s=options.retry_timeout_s,
        retry_option=RETRY_OPTION,
    )


def read_range(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """In a task. What is lost is an error that names the option to go on without it, or is left
    out where that option was set."""
    is_loss_allowed = not options.fail_on_data_loss
    with new_cluster(options) as cluster:
        fetcher = Fetcher(
            cluster,
            wanted.topic_partition,
            wanted.topic_id,
            wanted.start,
            wanted.end,
            isolation_level=options.isolation_level,
            columns=options.columns,
            max_bytes=options.fetch_bytes,
            is_loss_allowed=is_loss_allowed,
        )
        try:
            yield from fetcher
        except (KafkaError, GaveUp) as error:
            is_loss = isinstance(error, DataLoss) or error.code in _TOPIC_IS_GONE
            if not is_loss:
                raise
            if not is_loss_allowed:
                raise DataLoss(
                    error.code or ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{error}; to go on without what is lost set option failOnDataLoss to false",
                ) from error
