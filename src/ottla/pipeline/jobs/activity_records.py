"""Records of the activity pipeline, from bytes to actions. This module needs Spark, and no Python
runs for a record: Spark parses the JSON itself. docs/pipelines/activity.md has the schema."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ottla.pipeline.jobs.times import FROM_THE_FUTURE

PAGE_VIEW, SEARCH, CLICK = TYPES = ("page_view", "search", "click")
FIELDS = ("id", "type", "time", "user", "page", "query", "target")

_SEAL = "_seal"
_JSON = "array<struct<{}>>".format(",".join(f"{name}:string" for name in (*FIELDS, _SEAL)))
# Spark's own defaults take what is no JSON.
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
# \z: unlike $, it matches before no newline. Without this a cast takes "2026" for a time.
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.]\d{1,6})?Z\z"


def parsed(rows: DataFrame) -> DataFrame:
    """Every row, with its fields and a `reason`: what is wrong with it, or null. The fields of a
    broken row mean nothing. Of `rows` only `value` and `timestamp` are."""
    text = F.col("value").cast("string")
    whole = rows.columns
    rows = rows.withColumn("_text", F.when(F.is_valid_utf8(text), text))
    rows = rows.withColumn("_hash", F.xxhash64("_text").cast("string"))
    rows = rows.withColumn("_parts", _parts(F.col("_text"), F.col("_hash")))
    is_sealed = F.get("_parts", F.lit(1))[_SEAL] == F.col("_hash")
    record = F.when(is_sealed, F.get("_parts", F.lit(0)))
    # A filter on a field is not pushed below a generator, where the JSON would be parsed again
    # for it.
    rows = rows.select(*whole, "_text", F.inline(F.array(F.struct(record.alias("_record")))))
    fields = {name: F.col("_record")[name] for name in FIELDS}
    is_time = fields["time"].rlike(_TIME)
    fields["time"] = F.when(is_time, fields["time"].try_cast("timestamp"))
    return rows.select(
        *whole,
        *(column.alias(name) for name, column in fields.items()),
        _reason(fields).alias("reason"),
    )


def _parts(text: Column, hash: Column) -> Column:
    """Spark stops reading where a JSON value ends: what follows it would go unseen. So the text
    is put into an array, before a seal that it can't hold itself: only where the text is one
    whole value is the seal the second part."""
    sealed = F.concat(F.lit("["), text, F.lit(f',{{"{_SEAL}":"'), hash, F.lit('"}]'))
    return F.from_json(sealed, _JSON, _STRICT)


def _reason(fields: dict[str, Column]) -> Column:
    """The first thing that is wrong; null if nothing is."""
    raw = F.col("_record")
    kind = fields["type"]

    def missing(name: str) -> Column:
        return F.coalesce(raw[name], F.lit("")) == ""

    checks = [
        (F.col("value").isNull(), "no value"),
        (F.col("_text").isNull(), "not UTF-8"),
        (raw.isNull(), "not a JSON object"),
        (missing("type"), "type is missing"),
        (~kind.isin(*TYPES), f"type is none of {', '.join(TYPES)}"),
        (missing("time"), "time is missing"),
        (fields["time"].isNull(), "time is none like 2026-01-01T00:00:00.064Z"),
        (_is_ahead(fields["time"]), FROM_THE_FUTURE),
        (missing("user"), "user is missing"),
        (kind.isin(PAGE_VIEW, CLICK) & missing("page"), "page is missing"),
        ((kind == SEARCH) & missing("query"), "query is missing"),
        ((kind == CLICK) & missing("target"), "target is missing"),
    ]
    return F.coalesce(*(F.when(is_wrong, F.lit(reason)) for is_wrong, reason in checks))


def _is_ahead(time: Column) -> Column:
    """As `times.problem_ahead` says."""
    since = F.timestamp_millis(F.lit(0))
    timestamp = F.when(F.col("timestamp") >= since, F.col("timestamp"))
    # The other way round the sum could be too large for a timestamp.
    return F.coalesce(time - F.expr("interval 24 hours") > timestamp, F.lit(False))


def actions(rows: DataFrame) -> DataFrame:
    """What is counted: time, type, user and subject, the page of a page view or a click and the
    query of a search. Broken rows are left out."""
    good = parsed(rows).where("reason is null")
    subject = F.when(F.col("type") == SEARCH, F.col("query")).otherwise(F.col("page"))
    return good.select("time", "type", "user", subject.alias("subject"))
