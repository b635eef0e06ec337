"""Apache Kafka's file of a reassignment."""

from __future__ import annotations

import json

import pytest

from ottla.cli.errors import Failure
from ottla.cli.reassign.reassignment_file import decoded, encoded

TEXT = '{"version":1,"partitions":[{"topic":"clicks","partition":0,"replicas":[2,1]}]}'


def test_there_and_back() -> None:
    assignment = {("clicks", 1): (3, 1), ("clicks", 0): (1, 2)}
    found = encoded(assignment)
    assert [entry["partition"] for entry in found["partitions"]] == [0, 1]
    assert decoded(json.dumps(found), "plan.json") == assignment


def test_what_kafka_generates() -> None:
    printed = (
        "Current partition replica assignment\n"
        '{"version":1,"partitions":[{"topic":"clicks","partition":0,"replicas":[1],'
        '"log_dirs":["any"]}]}\n\n'
        "Proposed partition reassignment configuration\n"
        '{"version":1,"partitions":[{"topic":"clicks","partition":0,"replicas":[2],'
        '"log_dirs":["any"]}]}\n'
    )
    assert decoded(printed, "-") == {("clicks", 0): (2,)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "plan.json is empty"),
        ("{", "plan.json is not JSON"),
        ("[]", "no reassignment"),
        ('{"version": 2, "partitions": []}', "no reassignment"),
        ('{"version": 1, "partitions": []}', "no partitions"),
        (TEXT.replace('"topic":', '"name":'), "no topic, partition and replicas"),
        (TEXT.replace("[2,1]", "[]"), "not ids of brokers"),
        (TEXT.replace("[2,1]", '["2"]'), "not ids of brokers"),
        (TEXT.replace("[2,1]", "[2,2]"), "twice"),
        (TEXT.replace("[2,1]", '[2], "log_dirs": ["/d"]'), "log_dirs"),
        (TEXT.replace("[{", "[" + TEXT[TEXT.index("{", 2) : -2] + ",{"), "clicks:0 twice"),
    ],
)
def test_what_is_none(text: str, words: str) -> None:
    with pytest.raises(Failure, match=words):
        decoded(text, "plan.json")
