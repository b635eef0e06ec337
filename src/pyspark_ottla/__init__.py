"""Spark looks for data sources in packages whose names begin with `pyspark_`, and takes their
`DefaultSource`: with this one installed, `format("ottla")` needs no registration."""

from ottla.pipeline.source.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
