from __future__ import annotations

import pytest

from ottla.cli.simulate.replay import faults_of, replay_command


@pytest.mark.parametrize("faults", [None, (), ("kill:1",), ("kill:1", "pause:12")])
def test_what_a_command_names_is_what_is_run(
    faults: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_COMMAND", "./ottla")
    command = replay_command(17, faults).split()
    assert command[:4] == ["./ottla", "simulate", "--seed", "17"]
    named = command[command.index("--faults") + 1] if "--faults" in command else None
    assert faults_of(named) == faults


def test_spaces_between_names_are_taken() -> None:
    assert faults_of("kill:1, kill:2") == ("kill:1", "kill:2")
