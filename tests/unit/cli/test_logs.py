"""The broker's log lines."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.logs import JsonFormatter, KeyValueFormatter, log_state_changes, set_up_logs


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("ottla.storage", logging.WARNING, "f.py", 1, message, (), None)
    made.created = 1_700_000_000.123
    vars(made).update(extra)
    return made


@pytest.fixture
def loggers() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("ottla")
    before = (root.handlers[:], root.level, own.level)
    yield
    root.handlers[:], root.level, own.level = before


def test_key_value() -> None:
    line = KeyValueFormatter().format(record("cut the tail", topic="a b", offset=3))

    assert line == (
        "time=2023-11-14T22:13:20.123Z level=warning logger=ottla.storage "
        'message="cut the tail" topic="a b" offset=3'
    )


def test_one_message_is_one_line() -> None:
    assert "\n" not in KeyValueFormatter().format(record("two\nlines", name_of="x\ny"))


def test_json() -> None:
    assert json.loads(JsonFormatter().format(record("cut", folder=object, offset=3))) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "logger": "ottla.storage",
        "message": "cut",
        "folder": "<class 'object'>",
        "offset": 3,
    }


def test_an_exception_is_shown_with_its_traceback() -> None:
    made = record("failed")
    try:
        raise OSError("disk on fire")
    except OSError:
        made.exc_info = sys.exc_info()

    assert "disk on fire" in KeyValueFormatter().format(made)
    assert "disk on fire" in json.loads(JsonFormatter().format(made))["exception"]


def test_quiet_below_the_level(loggers: None, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs("warning", as_json=False)
    logging.getLogger("ottla.x").info("small talk")
    logging.getLogger("ottla.x").warning("trouble")
    set_up_logs("debug", as_json=True)
    logging.getLogger("ottla.x").debug("details")
    logging.getLogger("asyncio").info("not ours")

    captured = capsys.readouterr()
    first, second = captured.err.splitlines()
    assert first.endswith("logger=ottla.x message=trouble")
    assert json.loads(second)["message"] == "details"
    assert captured.out == ""


@pytest.fixture
def state_change_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("ottla.state_change")
    yield logger
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


def test_changes_of_state_have_a_file_of_their_own(
    tmp_path: Path, state_change_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state-change.log"
    log_state_changes(str(path))
    state_change_logger.debug("broker %d: its session is %s", 1, "expired")
    path.rename(tmp_path / "state-change.log.1")
    state_change_logger.debug("after logrotate")
    line = (tmp_path / "state-change.log.1").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z broker 1: its session is expired\n", line)
    assert path.read_text().endswith("Z after logrotate\n")
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_written() -> None:
    with pytest.raises(OSError, match="No such file"):
        log_state_changes("/no/such/folder/state-change.log")
