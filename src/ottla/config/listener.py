"""Where a broker listens: `NAME://HOST:PORT`, several separated by commas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.config.definition import InvalidSetting

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    name: str
    security_protocol: str
    host: str
    """Empty: every interface (in `listeners`), or whatever this machine is called (in
    `advertised.listeners`)."""
    port: int
    """0 in `listeners`: one that the system picks; in `advertised.listeners`: the one picked."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_security_protocol_map(setting: str, text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,...`; names count without regard to case."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name:
            raise InvalidSetting(setting, text, f"{entry} is not of the form NAME:PROTOCOL")
        if protocol.upper() not in SECURITY_PROTOCOLS:
            raise InvalidSetting(
                setting, text, f"{protocol} is not one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if name.upper() in protocols:
            raise InvalidSetting(setting, text, f"{name} is there twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(
    setting: str,
    items: Sequence[str],
    protocols: Mapping[str, str],
    *,
    leave_out: Sequence[str] = (),
    ports_must_differ: bool,
) -> tuple[Listener, ...]:
    """`leave_out` names the listeners of a KRaft controller."""
    listeners: list[Listener] = []
    for item in items:
        name, host, port = _parse_endpoint(setting, item)
        if name in leave_out:
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise InvalidSetting(
                setting,
                item,
                f"No security protocol defined for listener {name}; add {name}:PLAINTEXT to "
                "listener.security.protocol.map",
            )
        if protocol != "PLAINTEXT":
            raise InvalidSetting(
                setting, item, f"security protocol {protocol} is not supported yet, only PLAINTEXT"
            )
        listeners.append(Listener(name, protocol, host, port))
    _check_distinct(setting, listeners, ports_must_differ)
    return tuple(listeners)


def _parse_endpoint(setting: str, item: str) -> tuple[str, str, int]:
    name, separator, address = item.strip().partition("://")
    host, colon, port_text = address.rpartition(":")
    if not separator or not name or not colon:
        raise InvalidSetting(setting, item, "A listener has the form NAME://HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        _check_ipv6(setting, item, host)
    elif ":" in host:
        _check_ipv6(setting, item, host)
    elif not all(c.isascii() and (c.isalnum() or c in "-%._") for c in host):
        raise InvalidSetting(setting, item, f"{host} cannot be the name of a host")
    if not (port_text.isascii() and port_text.isdigit() and int(port_text[:6]) <= 65535):
        raise InvalidSetting(setting, item, f"Port {port_text!r} is not a number from 0 to 65535")
    return name.upper(), host, int(port_text)


def _check_ipv6(setting: str, item: str, host: str) -> None:
    import ipaddress

    try:
        ipaddress.IPv6Address(host)
    except ValueError as error:
        raise InvalidSetting(setting, item, str(error)) from None


def _check_distinct(setting: str, listeners: list[Listener], ports_must_differ: bool) -> None:
    shown = ",".join(map(str, listeners))
    if len({listener.name for listener in listeners}) != len(listeners):
        raise InvalidSetting(setting, shown, "Each listener must have a different name")
    if not ports_must_differ:
        return
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if port == 0 or len(sharing) == 1:
            continue
        # One address of each family may share a port (KIP-797).
        if sorted(_family(listener.host) for listener in sharing) != [4, 6]:
            raise InvalidSetting(
                setting,
                shown,
                f"Each listener must have a different port, but {port} is there twice (only an "
                "IPv4 and an IPv6 address can share one)",
            )


def _family(host: str) -> int:
    import ipaddress  # costs 3 ms, and most brokers have no address that needs it

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
