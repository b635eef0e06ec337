"""A network of hosts that can be cut from one another, made of network namespaces.

Each host is a namespace of its own, joined to a hub that forwards between them. Clients live in the
hub, and reach all hosts all the time. A cut is silent, as that of a switch: packets of two hosts to
each other are dropped in the hub.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

_CLONE_NEWNET = 0x4000_0000
_LIBC = ctypes.CDLL(None, use_errno=True)


class Place(NamedTuple):
    """Where a process runs."""

    host: str
    prefix: Sequence[str]


def missing() -> str | None:
    """What a machine lacks for this; None when nothing."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"ottla-{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespaces here: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


class BrokerNetwork:
    """Hosts by number. Made and removed by a fixture."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self._hosts = hosts
        self._hub = f"ottla-{os.getpid()}-hub"
        self._cuts: list[Sequence[str]] = []
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "set", "lo", "up")
        for host in hosts:
            self._add(host)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        _run("ip", "netns", "exec", self._hub, "sh", "-c", forward)

    def _add(self, host: int) -> None:
        name, veth = self._name(host), f"veth{host}"
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip(*f"link add eth0 netns {name} type veth peer name {veth} netns {self._hub}".split())
        for namespace, device, address in (
            (name, "eth0", _address(host)),
            (self._hub, veth, f"10.77.{host}.1"),
        ):
            _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", device)
            _ip("-n", namespace, "link", "set", device, "up")
        _ip("-n", name, "route", "add", "default", "via", f"10.77.{host}.1")

    def place_of(self, host: int) -> Place:
        return Place(_address(host), ["ip", "netns", "exec", self._name(host)])

    def cut(self, one: int, other: int) -> None:
        """From the other, both ways."""
        for source, target in ((one, other), (other, one)):
            rule = ["from", _address(source), "to", _address(target), "blackhole"]
            _ip("-n", self._hub, "rule", "add", *rule)
            self._cuts.append(rule)

    def heal(self) -> None:
        for rule in self._cuts:
            _ip("-n", self._hub, "rule", "del", *rule)
        self._cuts.clear()

    def remove(self) -> None:
        """The links go with their namespaces."""
        for name in [*map(self._name, self._hosts), self._hub]:
            _ip("netns", "del", name)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and all that it starts meanwhile, is in the hub."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        hub = os.open(f"/run/netns/{self._hub}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set_namespace(hub)
            try:
                yield
            finally:
                _set_namespace(before)
        finally:
            os.close(before)
            os.close(hub)

    def _name(self, host: int) -> str:
        return f"ottla-{os.getpid()}-{host}"


def _address(host: int) -> str:
    return f"10.77.{host}.2"


def _set_namespace(file_descriptor: int) -> None:
    if _LIBC.setns(file_descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*args: str) -> None:
    _run("ip", *args)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
