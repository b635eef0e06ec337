"""Texts as Spark 4.3 has them, cut where they repeat themselves."""

from __future__ import annotations

from pyspark.errors import PySparkException

from ottla.pipeline.run.causes import cause_of

IN_THE_SOURCE = """[STREAM_FAILED] Query [id = e35c, runId = 3a89] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform \
planPartitions: Traceback (most recent call last):
  File "python_streaming_source_runner.py", line 271, in main
  File "source.py", line 167, in partitions
    return [InputPartition(one) for one in split(ranges)]
                                           ^^^^^^^^^^^^^
ottla.pipeline.given_options.OptionError: option subscribe: there is no topic clicks; create it
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: probe [id = e35c, runId = 3a89]
Current Committed Offsets: {}

Logical Plan:
+- ~Project [f(value#1)#7 AS f(value)#8]
"""

CHAINED_IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most \
recent failure: Lost task 0.0: org.apache.spark.api.python.PythonException: Traceback (most recent \
call last):
  File "fetcher.py", line 10, in fetch
    raise KafkaError(code)
ottla.kernel.errors.KafkaError: offset 7 is gone

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "source.py", line 234, in read_range
ottla.pipeline.rows.fetcher.DataLoss: offset 7 is gone; to go on set failOnDataLoss to false

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "other.py", line 1, in other
ValueError: not this one
"""

WRAPPED = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent \
call last):
  File "utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
py4j.protocol.Py4JJavaError: An error occurred while calling o7.collect.
: org.apache.spark.SparkException: Job aborted

\tat org.apache.spark.Whatever(Whatever.scala:1)
Caused by: PythonException: Traceback (most recent call last):
  File "job.py", line 1, in parse
KeyError: 'user'

\tat org.apache.spark.Whatever(Whatever.scala:1)
"""

OF_SPARK = """[STREAM_FAILED] Query [id = e35c, runId = 3a89] terminated with exception: Concurrent
 update to the log. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: probe
"""


def test_the_source_says_what_is_wrong() -> None:
    expected = "OptionError: option subscribe: there is no topic clicks; create it"
    assert cause_of(PySparkException(IN_THE_SOURCE)) == expected


def test_the_outermost_of_chained_ones_is_meant_for_the_user() -> None:
    found = cause_of(PySparkException(CHAINED_IN_A_TASK))
    assert found == "DataLoss: offset 7 is gone; to go on set failOnDataLoss to false"


def test_what_java_wraps_is_looked_for() -> None:
    assert cause_of(RuntimeError(WRAPPED)) == "KeyError: 'user'"


def test_spark_itself() -> None:
    assert cause_of(PySparkException(OF_SPARK)) == "Concurrent update to the log."


def test_what_spark_waited_for() -> None:
    error = PySparkException("Exception thrown in awaitResult: \n=== Streaming Query ===\nId: a")
    assert cause_of(error) == "Exception thrown in awaitResult:"
    error._cause = PySparkException("Expected 2 commits but got 0. SQLSTATE: XXKST")  # type: ignore[attr-defined]
    assert cause_of(error) == "Expected 2 commits but got 0."


def test_spark_without_a_word() -> None:
    text = OF_SPARK.replace("Concurrent\n update to the log.", "")
    assert cause_of(PySparkException(text)) == "PySparkException, without a reason"


def test_python_itself() -> None:
    assert cause_of(ValueError("bad\nthing")) == "ValueError: bad thing"
    assert cause_of(KeyError()) == "KeyError"
    assert len(cause_of(ValueError("x" * 10_000))) < 700
