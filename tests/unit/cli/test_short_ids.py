from __future__ import annotations

from ottla.cli.short_ids import short_ids

A = "4c5d0f67-1b1f-4a0e-8a4b-3d5a0e1f2a3b"
B = "4c5d0f68-1b1f-4a0e-8a4b-3d5a0e1f2a3b"
C = "9fa0c1d2-1b1f-4a0e-8a4b-3d5a0e1f2a3b"


def test_as_much_as_tells_them_apart() -> None:
    assert short_ids([f"app-{A}", f"app-{C}"]) == {f"app-{A}": "4c5d0f", f"app-{C}": "9fa0c1"}
    assert short_ids([f"app-{A}", f"app-{B}"]) == {f"app-{A}": "4c5d0f67", f"app-{B}": "4c5d0f68"}


def test_the_same_random_part_of_two_clients_tells_nothing() -> None:
    ids = [f"a-{A}", f"b-{A}"]

    assert short_ids(ids) == dict(zip(ids, ids, strict=True))


def test_ids_of_the_newer_protocol() -> None:
    ids = ["Zm9vYmFyYmF6cXV4cXV1eA", "Zm9vYmFzYmF6cXV4cXV1eA", A]

    assert list(short_ids(ids).values()) == ["Zm9vYmFy", "Zm9vYmFz", "4c5d0f67"]


def test_short_names_stay_as_they_are() -> None:
    assert short_ids(["m-1", "m-2", "m-1"]) == {"m-1": "m-1", "m-2": "m-2"}
    assert short_ids([]) == {}
