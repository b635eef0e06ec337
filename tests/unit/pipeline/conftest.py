"""Transforms of Spark need a Spark to be tested."""

from tests.pipeline.conftest import spark

__all__ = ["spark"]
