"""`ottla topics list`: what it prints of what it was told. tests/compat tries it on brokers."""

from __future__ import annotations

import socket

import pytest

from ottla.cli.main import main
from ottla.cli.topics.list import _sum_of


def test_a_sum_is_unknown_when_a_part_of_it_is() -> None:
    assert _sum_of([1, 2]) == 3
    assert _sum_of([1, None]) is None
    assert _sum_of([]) == 0


def test_a_server_that_is_no_broker_is_told_from_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ottla.cli.topics.list.METADATA_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:  # it accepts, and says nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["topics", "list", "--bootstrap", address]) == 1

    err = capsys.readouterr().err
    assert err.startswith(f"ottla: {address} accepts connections but does not answer as a Kafka")
    assert err.count("\n") == 1
