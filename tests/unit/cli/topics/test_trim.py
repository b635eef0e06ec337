"""`ottla topics trim` without a cluster; tests/compat tries it on brokers."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from ottla.cli.client import Cluster
from ottla.cli.main import main
from ottla.cli.offsets import Bounds
from ottla.cli.topics import trim
from ottla.cli.topics.trim import Cut, cut_of
from tests.unit.cli.groups.fake_admin import FakeAdmin, done, kafka_exception

TRIM = ["topics", "trim"]


class FakeLogs(FakeAdmin):
    """`clicks` has 10 and 1000 records. What is trimmed is remembered."""

    def __init__(self) -> None:
        super().__init__(latest={("clicks", 0): 10, ("clicks", 1): 1000})
        self.trimmed: dict[tuple[str, int], int] = {}
        self.policy = "delete"
        self.refusal: Exception | None = None

    def delete_records(self, cuts: list[TopicPartition], **_: Any) -> dict[Any, Future[Any]]:
        self.trimmed |= {(cut.topic, cut.partition): cut.offset for cut in cuts}
        return {cut: done(self.refusal) for cut in cuts}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeLogs:
    fake = FakeLogs()

    def described_configs(_: Any, entity_type: str, names: list[str]) -> Any:
        return {name: {"cleanup.policy": {"value": fake.policy}} for name in names}

    monkeypatch.setattr(Cluster, "admin", lambda _: fake)
    monkeypatch.setattr(trim, "described_configs", described_configs)
    return fake


@pytest.mark.parametrize(
    ("wanted", "new", "note"),
    [
        (15, 15, ""),
        (20, 20, ""),
        (21, 20, "21 is after the latest"),
        (10, 10, "nothing to delete"),
        (-5, 10, "nothing to delete"),
    ],
)
def test_a_cut_stays_within_the_log(wanted: int, new: int, note: str) -> None:
    cut = cut_of(("clicks", 1), wanted, Bounds(10, 20))

    assert cut == Cut("clicks", 1, 10, new, 20, note)
    assert cut.deleted == new - 10


def test_the_plan_is_shown_and_not_done(fake: FakeLogs, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRIM, "clicks", "--keep", "100"]) == 0

    out, err = capsys.readouterr()
    assert out == (
        "TOPIC   PARTITION  EARLIEST  NEW  LATEST  DELETED  NOTE\n"
        "clicks          0         0    0      10        0  nothing to delete\n"
        "clicks          1         0  900    1000      900\n"
    )
    assert err == "ottla: this is the plan, nothing was changed; --execute does it\n"
    assert fake.trimmed == {}


def test_execute(fake: FakeLogs, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRIM, "clicks", "--before-offset", "7", "--execute"]) == 0
    assert fake.trimmed == {("clicks", 0): 7, ("clicks", 1): 7}
    assert capsys.readouterr().out.splitlines()[-1] == "trimmed clicks"


def test_partitions_where_nothing_goes_are_left_alone(fake: FakeLogs) -> None:
    assert main([*TRIM, "clicks", "--keep", "10", "--execute"]) == 0
    assert fake.trimmed == {("clicks", 1): 990}


def test_by_time_in_json(fake: FakeLogs, capsys: pytest.CaptureFixture[str]) -> None:
    fake.by_time["clicks", 0] = 4
    args = [*TRIM, "clicks:0", "--before-time", "2026-01-01T00:00:00Z", "--execute", "--json"]

    assert main(args) == 0
    assert json.loads(capsys.readouterr().out) == {
        "executed": True,
        "partitions": [
            {
                "topic": "clicks",
                "partition": 0,
                "earliest_offset": 0,
                "new_earliest_offset": 4,
                "latest_offset": 10,
                "note": "",
                "deleted": 4,
            }
        ],
    }
    assert fake.trimmed == {("clicks", 0): 4}
    # Nothing is younger than an hour: all of it goes.
    fake.by_time.clear()
    assert main([*TRIM, "clicks:0", "--older-than", "1h", "--execute"]) == 0
    assert fake.trimmed == {("clicks", 0): 10}


def test_what_is_not_trimmed(fake: FakeLogs, capsys: pytest.CaptureFixture[str]) -> None:
    fake.policy = "compact"
    assert main([*TRIM, "clicks", "--keep", "0", "--execute"]) == 1
    complaint = capsys.readouterr().err
    assert "'clicks' has cleanup.policy=compact" in complaint
    # Data that is meant to stay: no command to copy that would start its retention unsaid.
    assert "would also delete by retention.ms" in complaint
    assert "--append" not in complaint
    fake.policy = "compact,delete"
    fake.refusal = kafka_exception(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no")
    assert main([*TRIM, "clicks:0", "--keep", "0", "--execute"]) == 1
    assert "could not trim clicks:0: no (TOPIC_AUTHORIZATION_FAILED)" in capsys.readouterr().err
    fake.latest["__consumer_offsets", 0] = 5
    assert main([*TRIM, "__consumer_offsets", "--keep", "0"]) == 1
    assert "'__consumer_offsets' is kept by the brokers themselves" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["clicks"], "say what to delete, by one of --before-offset, --before-time, --older-than"),
        (["clicks", "--keep", "1", "--older-than", "1h"], "say what to delete, by one of"),
        (["clicks:x", "--keep", "1"], "'clicks:x' is neither TOPIC nor TOPIC:0,1"),
        (["clicks", "--keep", "-1"], "'--keep'"),
        (["clicks", "--before-time", "soon"], "'--before-time'"),
        (["--keep", "1"], "missing argument 'TOPIC[:P,P]...'"),
    ],
)
def test_usage_errors(
    args: list[str], complaint: str, fake: FakeLogs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRIM, *args]) == 2
    assert complaint in capsys.readouterr().err
