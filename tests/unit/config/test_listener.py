from __future__ import annotations

import pytest

from ottla.config.definition import InvalidSetting
from ottla.config.listener import Listener, parse_listeners, parse_security_protocol_map

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "SSL": "SSL"}


def parse(text: str, **options: bool) -> tuple[Listener, ...]:
    must_differ = options.get("ports_must_differ", True)
    return parse_listeners("listeners", text.split(","), PROTOCOLS, ports_must_differ=must_differ)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://localhost:9092", "localhost", 9092),
        ("plaintext://localhost:9092", "localhost", 9092),
        ("PLAINTEXT://:0", "", 0),
        ("PLAINTEXT://0.0.0.0:65535", "0.0.0.0", 65535),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://::1:9092", "::1", 9092),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("PLAINTEXT://my-host.example.org:9092", "my-host.example.org", 9092),
    ],
)
def test_a_listener_has_name_host_and_port(text: str, host: str, port: int) -> None:
    assert parse(text) == (Listener("PLAINTEXT", "PLAINTEXT", host, port),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PLAINTEXT", "form NAME://HOST:PORT"),
        ("PLAINTEXT://localhost", "form NAME://HOST:PORT"),
        ("://localhost:9092", "form NAME://HOST:PORT"),
        ("PLAINTEXT://localhost:", "Port '' is not a number from 0 to 65535"),
        ("PLAINTEXT://localhost:-1", "Port '-1'"),
        ("PLAINTEXT://localhost:65536", "Port '65536'"),
        ("PLAINTEXT://local host:9092", "cannot be the name of a host"),
        ("PLAINTEXT://[::g]:9092", "::g"),
        ("PLAINTEXT://a:b:9092", "a:b"),
        ("OTHER://localhost:9092", "No security protocol defined for listener OTHER"),
        ("SSL://localhost:9092", "SSL is not supported yet"),
        ("PLAINTEXT://:1,PLAINTEXT://:2", "different name"),
        ("PLAINTEXT://:1,INTERNAL://:1", "different port"),
        ("PLAINTEXT://127.0.0.1:1,INTERNAL://10.0.0.1:1", "different port"),
    ],
)
def test_a_bad_listener_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason) as refused:
        parse(text)
    assert refused.value.name == "listeners"


def test_several_listeners_may_have_ports_picked_by_the_system() -> None:
    assert len(parse("PLAINTEXT://:0,INTERNAL://:0")) == 2


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    assert len(parse("PLAINTEXT://127.0.0.1:9092,INTERNAL://[::1]:9092")) == 2


def test_advertised_ports_may_be_the_same() -> None:
    assert len(parse("PLAINTEXT://a:1,INTERNAL://b:1", ports_must_differ=False)) == 2


def test_a_controllers_listener_is_left_out_whatever_its_protocol() -> None:
    listeners = parse_listeners(
        "listeners",
        ["PLAINTEXT://:9092", "CONTROLLER://:9093"],
        PROTOCOLS,
        leave_out=["CONTROLLER"],
        ports_must_differ=True,
    )
    assert [listener.name for listener in listeners] == ["PLAINTEXT"]


def test_a_listener_is_written_as_it_is_read() -> None:
    assert str(Listener("A", "PLAINTEXT", "::1", 9092)) == "A://[::1]:9092"
    assert str(Listener("A", "PLAINTEXT", "", 0)) == "A://:0"


def test_the_protocol_map_ignores_case() -> None:
    parsed = parse_security_protocol_map("map", "internal:plaintext, OUT:SASL_SSL,")
    assert parsed == {"INTERNAL": "PLAINTEXT", "OUT": "SASL_SSL"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("A", "form NAME:PROTOCOL"), ("A:TLS", "TLS is not one of"), ("A:SSL,a:SSL", "there twice")],
)
def test_a_bad_protocol_map_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        parse_security_protocol_map("map", text)
