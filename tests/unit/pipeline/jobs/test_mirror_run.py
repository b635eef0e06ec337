from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.pipeline.jobs import mirror_run
from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.mirror import JOB, MirrorOptions
from ottla.pipeline.jobs.mirror_groups import ledger_group
from ottla.pipeline.jobs.mirror_hops import Hop
from ottla.pipeline.jobs.mirror_run import MirrorRun
from ottla.pipeline.run.settings import new_settings
from ottla.pipeline.sink import sink
from ottla.pipeline.sink.ledger import LedgerError
from ottla.pipeline.sink.transaction import LedgerEntry
from ottla.pipeline.source.given_options import Connection, OptionError
from ottla.pipeline.source.offsets import Position
from tests.support.mirror_clusters import FakeCluster, FakeLog, patch_clients

A, B, OLD = TopicPartition("clicks", 0), TopicPartition("clicks", 1), TopicPartition("old", 0)
LEDGER = ledger_group("east", "mirror")


class FakeTransaction:
    begun: list[str]

    def __init__(self, cluster: FakeCluster, transactional_id: str, **_: Any) -> None:
        self.begun.append(f"{cluster.cluster_id} {transactional_id}")

    def init(self) -> None:
        pass


class World:
    def __init__(self) -> None:
        self.east = FakeCluster(
            "east", {A: FakeLog({}, 50, 7), B: FakeLog({}, 60), OLD: FakeLog({}, 5)}
        )
        self.west = FakeCluster("west")

    def run(self, **flags: Any) -> MirrorRun:
        settings = settings_of(**flags)
        return MirrorRun(settings, MirrorOptions.parse(settings))

    def starts(self, **flags: Any) -> Any:
        return json.loads(self.run(**flags).starting_offsets())


def settings_of(**flags: Any) -> Settings:
    given = {"bootstrap": "east:1", "target": "west:1", "topic_pattern": "cl.*", **flags}
    return new_settings(JOB, given)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    patch_clients(monkeypatch)
    world = World()
    FakeTransaction.begun = []
    monkeypatch.setattr(mirror_run, "Transaction", FakeTransaction)
    monkeypatch.setattr(
        Connection, "cluster", lambda connection: getattr(world, connection.bootstrap[0][0])
    )
    return world


def test_a_new_mirror_starts_where_the_settings_say(world: World) -> None:
    assert world.starts() == {"clicks": {"0": 7, "1": 0}}
    assert world.starts(starting="latest") == {"clicks": {"0": 50, "1": 60}}
    assert world.starts(topics="old") == {"old": {"0": 0}}
    assert FakeTransaction.begun == [f"west {LEDGER}"] * 3


def test_it_goes_on_where_the_target_says(world: World) -> None:
    world.west.groups[LEDGER] = {A: CommittedOffset(20), OLD: CommittedOffset(3)}
    assert world.starts(starting="latest") == {"clicks": {"0": 20, "1": 60}}


def test_offsets_that_have_expired_are_found_by_the_records(world: World) -> None:
    copies = {0: None, 1: Hop("east", 30), 2: Hop("east", 31), 4: Hop("north", 99), 5: None}
    world.west.logs = {A: FakeLog(copies, 6), B: FakeLog({0: None}, 1)}
    assert world.starts() == {"clicks": {"0": 32, "1": 0}}


def test_a_source_that_ends_before_its_copy_is_an_error(world: World) -> None:
    world.west.groups[LEDGER] = {A: CommittedOffset(51)}
    with pytest.raises(LedgerError, match="clicks-0 was mirrored up to offset 51 and ends at 50"):
        world.starts()


def test_a_topic_made_anew_in_the_source_is_an_error(world: World) -> None:
    same, other = (LedgerEntry("q", 1).text(TopicId(one * 16)) for one in (b"\0", b"\1"))
    world.west.groups[LEDGER] = {A: CommittedOffset(20, same), B: CommittedOffset(20)}
    assert world.starts() == {"clicks": {"0": 20, "1": 20}}
    world.west.groups[LEDGER] = {A: CommittedOffset(20, other)}
    with pytest.raises(LedgerError, match="topic clicks was deleted in the source and made anew"):
        world.starts()


def plan(folder: Path, *positions: dict[TopicPartition, int]) -> None:
    """A checkpoint of Spark's with batches that end there."""
    offsets = folder / "checkpoints" / "mirror" / "offsets"
    offsets.mkdir(parents=True)
    for batch_id, position in enumerate(positions):
        text = json.dumps(Position(position, {"clicks": NO_TOPIC_ID}).to_json())
        (offsets / str(batch_id)).write_text(f"v1\n{{}}\n{text}\n")


@pytest.mark.parametrize(("committed", "is_ahead"), [(20, False), (30, False), (25, True)])
def test_a_checkpoint_that_others_have_gone_on_from_fences_nobody(
    world: World, tmp_path: Path, committed: int, is_ahead: bool
) -> None:
    plan(tmp_path, {A: 20, B: 20}, {A: 30, B: 20})
    world.west.groups[LEDGER] = {A: CommittedOffset(committed), B: CommittedOffset(20)}
    run = world.run(folder=str(tmp_path))
    if is_ahead:
        with pytest.raises(LedgerError, match="another copy has gone on"):
            run.starting_offsets()
    else:
        run.starting_offsets()
    assert len(FakeTransaction.begun) == (0 if is_ahead else 1)


def test_a_first_batch_that_ends_before_the_target_does_is_refused(world: World) -> None:
    """It was planned, and the target has got more from another copy since."""
    world.west.groups[LEDGER] = {A: CommittedOffset(40)}
    run = world.run()
    run.starting_offsets()
    batch = SimpleNamespace(batch_id=0, starts={}, ends={A: 30, B: 10})
    with pytest.raises(LedgerError, match="up to 30, but the target has it up to 40"):
        run.write(cast("Any", None), cast("Any", batch))


@pytest.mark.parametrize(
    ("committed", "starting", "is_written"),
    [({A: 20, B: 40}, "earliest", False), ({A: 20}, "latest", True)],
)
def test_a_partition_that_was_added_is_read_from_its_beginning(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    committed: dict[TopicPartition, int],
    starting: str,
    is_written: bool,
) -> None:
    """By the source, wherever the mirror itself would start: so nobody may have copied it yet."""
    written: list[dict[TopicPartition, int]] = []
    monkeypatch.setattr(sink, "write_batch", lambda *_, **given: written.append(given["starts"]))
    for other in ("_make", "_sync_if_due"):
        monkeypatch.setattr(MirrorRun, other, lambda *_: None)
    world.west.groups[LEDGER] = {where: CommittedOffset(at) for where, at in committed.items()}
    run = world.run(starting=starting)
    run.starting_offsets()
    ends, ids = {A: 30, B: 50}, {"clicks": NO_TOPIC_ID}
    batch = SimpleNamespace(query_id="q", batch_id=1, starts={A: 20}, ends=ends, topic_ids=ids)
    if is_written:
        run.write(cast("Any", None), cast("Any", batch))
    else:
        with pytest.raises(LedgerError, match=r"clicks-1 from 0, but the output has .* to 40"):
            run.write(cast("Any", None), cast("Any", batch))
    assert written == ([{A: 20, B: 0}] if is_written else [])


def test_a_cluster_is_not_mirrored_to_itself(world: World) -> None:
    world.west.cluster_id = "east"
    with pytest.raises(OptionError, match="option target: it is the cluster that is read from"):
        world.run()


def test_a_partition_is_not_split(world: World) -> None:
    with pytest.raises(OptionError, match="option minPartitions: mixes up the order"):
        world.run(**{"source.minPartitions": "4"})
    with pytest.raises(OptionError, match="option maxRecordsPerPartition: mixes up the order"):
        world.run(**{"source.maxrecordsperpartition": "4"})


def test_upkeep_copies_settings_and_groups_when_it_is_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run(sync_seconds="3600")
    world.west.groups[LEDGER] = {A: CommittedOffset(20), OLD: CommittedOffset(3)}
    done: list[Any] = []
    monkeypatch.setattr(run._topics, "make", lambda *args: done.append(("make", *args)))
    monkeypatch.setattr(run._topics, "copy_configs", lambda names: done.append([*names]))
    monkeypatch.setattr(run._groups, "copy", lambda *args, patience_s: done.append(*args))
    run.upkeep(False)
    assert done == [("make", world.east.topics(["clicks"]), {"clicks"}), ["clicks"], {A: 20}]
    run.upkeep(False)
    assert len(done) == 3
    run.upkeep(True)
    assert len(done) == 6


def test_upkeep_leaves_out_a_topic_that_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether to go on without it is for the source to say: see failOnDataLoss."""
    made: list[list[str]] = []
    monkeypatch.setattr(MirrorRun, "_sync_topics", lambda _, topics: made.append(sorted(topics)))
    run = world.run(topics="clicks,old")
    run.starting_offsets()
    del world.east.logs[OLD]
    run.upkeep(False)
    assert made == [["clicks"]]


def test_upkeep_does_not_wait_for_a_batch_unless_it_is_the_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run()
    done = threading.Event()
    monkeypatch.setattr(run, "_sync_if_due", lambda *, is_last: done.set())
    with run._lock:
        run.upkeep(False)
        last = threading.Thread(target=run.upkeep, args=[True])
        last.start()
        assert not done.is_set()
    last.join()
    assert done.is_set()
