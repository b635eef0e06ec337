"""Fixtures for tests that need a broker, and what happens around a run."""

from __future__ import annotations

import gc
import os
import re
import signal
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ottla.testing.loop_thread import guard_mutators
from tests.support import order
from tests.support.counts import count
from tests.support.dump_log import complaints, segment_files
from tests.support.need import need_apache_kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.zookeeper_process import ZooKeeperProcess
from tools import apache_kafka as apache_kafka_tools

# A shell that runs `./test` in the background leaves Ctrl-C ignored, nohup the end of its terminal,
# and so would every program that a test starts and ends that way.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

IS_CI = os.environ.get("CI") == "true"

_PROCESSES = pytest.StashKey[list[OttlaProcess]]()
_VERDICT = pytest.StashKey["Verdict"]()

# Derandomized: a run says the same as the one before. `--full` looks further. No deadline: a
# slow machine is not a bug.
settings.register_profile(
    "ottla",
    max_examples=count(full=1000),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ottla")


class Verdict:
    """What was written over the whole run, and what DumpLogSegments said to it. One JVM reads
    all of it at the end, since starting one for each test would cost more than the tests."""

    def __init__(self) -> None:
        self.data_dirs: list[Path] = []
        self.file_count = 0
        self.not_read = ""
        self.complaints: list[str] = []

    def read(self) -> None:
        files = [path for data_dir in self.data_dirs for path in segment_files(data_dir)]
        if not files:
            return
        if (reason := apache_kafka_tools.missing()) is not None:
            self.not_read = f"{len(files)} files were not read by DumpLogSegments: {reason}"
            return
        self.file_count = len(files)
        self.complaints = complaints(files)


MakeBroker = Callable[..., OttlaProcess]


@pytest.fixture
def make_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeBroker]:
    """Starts brokers: `make_broker(settings={...}, args=[...], start=True)`. At the end they are
    stopped cleanly, and their files kept for DumpLogSegments. A broker that the test itself
    killed and did not start again is left as it is."""
    folder_name = re.sub(r"\W+", "_", request.node.name)[:60]
    processes: list[OttlaProcess] = []
    request.node.stash[_PROCESSES] = processes

    def make(*, start: bool = True, **options: Any) -> OttlaProcess:
        process = OttlaProcess(tmp_path_factory.mktemp(folder_name), **options)
        processes.append(process)
        if start:
            process.start()
        return process

    yield make
    stop_all(processes, request.config)


def stop_all(processes: list[OttlaProcess], config: pytest.Config) -> None:
    """Their files are read at the end of the run."""
    errors: list[Exception] = []
    for process in processes:
        if not process.is_running:
            continue
        try:
            process.stop()
        except Exception as error:
            errors.append(error)
        else:
            note_data_dirs(config, [process.data_dir])
    if errors:
        raise ExceptionGroup("brokers that did not stop cleanly", errors)


def note_data_dirs(config: pytest.Config, data_dirs: list[Path]) -> None:
    """Of brokers that were stopped cleanly: read at the end of the run."""
    config.stash[_VERDICT].data_dirs += data_dirs


@pytest.fixture
def broker(make_broker: MakeBroker) -> OttlaProcess:
    """A broker with default settings, an empty data dir, and a port that the system picked."""
    return make_broker()


@pytest.fixture(scope="session")
def shared_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OttlaProcess]:
    """One broker with default settings for all tests that only need some broker, and name their
    topics so that no other test has the same."""
    process = OttlaProcess(tmp_path_factory.mktemp("shared-broker"))
    process.start()
    yield process
    stop_all([process], request.config)


@pytest.fixture(scope="session")
def apache_kafka(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[apache_kafka_tools.ApacheKafkaBroker]:
    """One Apache Kafka broker for all tests that compare with it."""
    need_apache_kafka()
    folder = tmp_path_factory.mktemp("apache-kafka")
    with apache_kafka_tools.ApacheKafkaBroker(folder, heap_mb=512) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """One ZooKeeper for all tests that need one, which take a chroot that no other test has."""
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_VERDICT] = Verdict()
    guard_mutators(setattr)


def pytest_report_header() -> str | None:
    return f"{order.VARIABLE}={order.wanted()}" if order.wanted() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if order.wanted():
        items[:] = order.in_order(items, lambda item: item.path, order.wanted())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and IS_CI and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"On CI nothing is skipped. {reason}"
    if report.failed:
        for process in item.stash.get(_PROCESSES, []):
            report.sections.append((f"broker in {process.folder}", process.log_text()))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    verdict = session.config.stash[_VERDICT]
    verdict.read()
    if (verdict.complaints or (verdict.not_read and IS_CI)) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    verdict = config.stash[_VERDICT]
    if verdict.complaints:
        terminalreporter.section("DumpLogSegments complains", red=True)
        for complaint in verdict.complaints:
            terminalreporter.line(complaint)
    elif verdict.file_count:
        terminalreporter.line(
            f"DumpLogSegments accepts {verdict.file_count} files of"
            f" {len(verdict.data_dirs)} brokers."
        )
    if verdict.not_read:
        terminalreporter.line(verdict.not_read)


# kafka-python and aiokafka leave it to the collector to close sockets when a broker goes away.
# Where such clients are tested that is no error, nor may it become one of a test that comes later.
_OF_CLIENTS = "ignore:unclosed:ResourceWarning"


def pytest_itemcollected(item: pytest.Item) -> None:
    if _has_clients(item.path):
        item.add_marker(pytest.mark.filterwarnings(_OF_CLIENTS))


@pytest.fixture(autouse=True, scope="module")
def sockets_left_by_clients(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if _has_clients(request.path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def _has_clients(path: Path) -> bool:
    return bool({"compat", "faults"} & set(path.parts))
