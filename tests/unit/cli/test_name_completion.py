"""Completion of names that the broker knows. tests/compat does it in real shells."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
import pytest

from ottla.cli import name_completion
from ottla.cli.group import group
from tests.unit.cli.groups.fake_admin import done

SETTINGS = {"retention.ms": False, "retention.bytes": False, "log.dirs": True}


class FakeAdmin:
    def __init__(self) -> None:
        self.described: list[tuple[str, str]] = []

    def list_topics(self, *, timeout: float) -> Any:
        return SimpleNamespace(
            topics=dict.fromkeys(["clicks", "views", "__consumer_offsets"]), brokers={1: None}
        )

    def list_consumer_groups(self, **_: Any) -> Any:
        return done(SimpleNamespace(valid=[SimpleNamespace(group_id="billing")]))

    def describe_configs(self, resources: list[Any], **_: Any) -> Any:
        (resource,) = resources
        self.described.append((resource.restype.name.lower(), resource.name))
        entries = {
            key: SimpleNamespace(is_read_only=is_read_only)
            for key, is_read_only in SETTINGS.items()
        }
        return {resource: done(entries)}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr(name_completion, "_admin", lambda _ctx: fake)
    monkeypatch.setattr(name_completion, "_TIMEOUT_S", 30.0)
    return fake


def completed(line: str) -> list[str]:
    """What follows, as a shell would be told."""
    from click.shell_completion import ShellComplete

    *args, incomplete = line.split(" ")
    shell = ShellComplete(group, {}, "ottla", "_OTTLA_COMPLETE")
    return [item.value for item in shell.get_completions(args, incomplete)]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("consume ", ["clicks", "views"]),
        ("consume v", ["views"]),
        ("consume clicks ", ["views"]),
        ("consume _", ["__consumer_offsets"]),
        ("consume clicks --group ", ["billing"]),
        ("produce c", ["clicks"]),
        ("perf consume c", ["clicks"]),
        ("topics describe clicks ", ["views"]),
        ("topics create ", []),
        ("topics alter clicks --delete-config retention", ["retention.bytes", "retention.ms"]),
        ("groups describe ", ["billing"]),
        ("groups reset billing --topic c", ["clicks"]),
        ("configs describe topic ", ["clicks", "views"]),
        ("configs describe group ", ["billing"]),
        ("configs describe broker ", ["1"]),
        ("transactions find-hanging --topic v", ["views"]),
    ],
)
@pytest.mark.usefixtures("admin")
def test_names(line: str, names: list[str]) -> None:
    assert completed(line) == names


@pytest.mark.parametrize(
    ("line", "described"),
    [
        ("configs alter broker 1 --set ", ("broker", "1")),
        ("configs alter topic views --append ", ("topic", "views")),
        ("topics alter views -c ", ("topic", "views")),
        ("topics create new -c ", ("topic", "clicks")),
    ],
)
def test_settings_that_can_be_changed(
    line: str, described: tuple[str, str], admin: FakeAdmin
) -> None:
    assert completed(line) == ["retention.bytes=", "retention.ms="]
    assert admin.described == [described]


def fails(_ctx: click.Context) -> Any:
    raise OSError("no broker")


def hangs(_ctx: click.Context) -> Any:
    threading.Event().wait(60)


@pytest.mark.parametrize("admin_of", [fails, hangs])
def test_without_a_broker_there_is_nothing_and_nothing_is_said(
    admin_of: Callable[[click.Context], Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(name_completion, "_admin", admin_of)

    assert completed("consume ") == []
    assert capfd.readouterr() == ("", "")


def test_a_bootstrap_that_is_none_is_not_complained_of(capfd: pytest.CaptureFixture[str]) -> None:
    assert completed("consume --bootstrap a:b:c ") == []
    assert capfd.readouterr() == ("", "")


def test_nobody_waits_for_a_broker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_completion, "_TIMEOUT_S", 1000.0)
    monkeypatch.setattr(name_completion, "Cluster", None)  # and no client is made for it
    assert completed("consume --bootstrap 127.0.0.1:1 ") == []
    assert completed("consume --bootstrap [::1]:1,127.0.0.1:1 ") == []


def test_of_several_brokers_one_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        assert name_completion._is_there(f"127.0.0.1:1,{there},127.0.0.1:1")
    assert not name_completion._is_there(there)
