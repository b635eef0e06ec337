"""`ottla start`: its command line, and the settings that come of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import __version__
from ottla.broker_process import ReadyInfo
from ottla.cli.errors import Failure
from ottla.cli.group import run_group
from ottla.cli.start import Settings, _say_ready, broker_config, parse, run


def test_options_in_both_spellings() -> None:
    args = ["--data-dir", "d", "--listen=:9092", "--set", "a=1", "--set=b=2", "--log-json"]

    assert parse(args) == Settings(data_dir="d", listen=":9092", set=("a=1", "b=2"), log_json=True)
    assert parse([]) == Settings()


@pytest.mark.parametrize(
    "args",
    [["--help"], ["--frob"], ["x"], ["--listen"], ["--log-json=1"], ["--log-level", "loud"]],
)
def test_what_is_odd_is_left_to_click(args: list[str]) -> None:
    assert parse(args) is None


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--data-dir", "d", "--listen=:0", "--set", "a=1", "--set=b=2", "--log-json"],
        ["--advertise", "h:1", "--broker-id", "3", "--config", "f", "--log-level", "debug"],
        ["--zookeeper", "h:1/kafka", "--broker-id=3"],
        ["--brokers", "3", "--restart"],
    ],
)
def test_click_reads_the_same(args: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    def take(settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr("ottla.cli.start.run", take)

    assert run_group(["start", *args]) == 0
    assert seen == [parse(args)]


def test_defaults() -> None:
    config = broker_config(Settings())

    assert config.broker_id == 1
    assert list(config.log_dirs) == ["ottla-data"]
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://localhost:9092"]


def test_options_are_stronger_than_set_and_set_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=7\nlog.dirs=/a,/b\nnum.partitions=2\nlisteners=PLAINTEXT://:1\n")
    from_file = broker_config(Settings(config=str(file)))
    stronger = broker_config(
        Settings(
            config=str(file),
            broker_id="8",
            data_dir="/c",
            listen="[::1]:2",
            advertise="other:3",
            set=("num.partitions=5", "log.dirs=/d"),
        )
    )

    assert (from_file.broker_id, from_file.num_partitions) == (7, 2)
    assert list(from_file.log_dirs) == ["/a", "/b"]
    assert (stronger.broker_id, stronger.num_partitions) == (8, 5)
    assert list(stronger.log_dirs) == ["/c"]
    assert [str(listener) for listener in stronger.listeners] == ["PLAINTEXT://[::1]:2"]
    assert [str(listener) for listener in stronger.advertised_listeners] == ["PLAINTEXT://other:3"]


def test_a_bad_setting_is_named_with_its_place_and_the_nearest_known(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# mine\nnum.partitons=2\n")

    with pytest.raises(Failure) as caught:
        broker_config(Settings(config=str(file)))

    assert str(caught.value).startswith(f"{file}:2: ")
    assert "num.partitons" in str(caught.value)
    assert "num.partitions" in str(caught.value)


def test_a_bad_value_of_set_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\n")

    with pytest.raises(Failure, match=r"^Invalid value x .*num\.partitions"):
        broker_config(Settings(config=str(file), set=("num.partitions=x",)))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Failure, match="cannot read /nowhere/x: No such file"):
        broker_config(Settings(config="/nowhere/x"))


def test_set_wants_key_and_value() -> None:
    with pytest.raises(Failure, match="KEY=VALUE") as caught:
        broker_config(Settings(set=("num.partitions",)))

    assert caught.value.exit_code == 2


def test_a_taken_port_is_said_with_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    monkeypatch.setattr("ottla.broker_process.run", refuse)
    monkeypatch.setattr("ottla.cli.start.set_up_logs", lambda *_, **__: None)

    with pytest.raises(Failure, match=r"cannot listen on 127\.0\.0\.1:7: Address already in use"):
        run(Settings(data_dir=str(tmp_path), listen="127.0.0.1:7"))


def test_the_data_of_several_brokers_are_not_those_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.start.set_up_logs", lambda *_, **__: None)
    (tmp_path / "cluster.db").write_text("")

    with pytest.raises(Failure, match="the data of several brokers; start them with --brokers N"):
        run(Settings(data_dir=str(tmp_path)))


def test_restart_is_for_several_brokers() -> None:
    with pytest.raises(Failure, match="--restart goes with --brokers N"):
        run(Settings(restart=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(listen="foo"), "--listen foo: give it as HOST:PORT, such as localhost:9092"),
        (Settings(listen="9092"), "--listen 9092: give it as HOST:PORT, such as localhost:9092"),
        (
            Settings(listen="h:99999"),
            "--listen h:99999: Port '99999' is not a number from 0 to 65535",
        ),
        (
            Settings(listen="SSL://:1"),
            "--listen SSL://:1: security protocol SSL is not supported yet, only PLAINTEXT",
        ),
        (Settings(advertise="x"), "--advertise x: give it as HOST:PORT, such as localhost:9092"),
        (Settings(broker_id="-4"), "--broker-id -4: Value must be at least 0"),
        (Settings(broker_id="x"), "--broker-id x: Not a number of type INT"),
        (
            Settings(broker_id="1", zookeeper="h:x"),
            "--zookeeper h:x: It must be HOST:PORT,... with the path after the last one, such as "
            "zk1:2181,zk2:2181,zk3:2181/kafka",
        ),
        (
            Settings(zookeeper="h:1"),
            "--broker-id N is missing: each broker of a cluster has a number of its own, and "
            "keeps it",
        ),
        (
            Settings(set=("zookeeper.connect=h:1",)),
            "--broker-id N is missing: each broker of a cluster has a number of its own, and "
            "keeps it",
        ),
        (Settings(data_dir=""), "--data-dir '': The list must not be empty"),
    ],
)
def test_an_option_is_blamed_by_its_own_name(settings: Settings, message: str) -> None:
    with pytest.raises(Failure) as caught:
        broker_config(settings)

    assert (str(caught.value), caught.value.exit_code) == (message, 2)


def test_a_data_dir_that_cannot_be_one_is_said_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.start.set_up_logs", lambda *_, **__: None)
    file = tmp_path / "a-file"
    file.write_text("")

    with pytest.raises(Failure, match=rf"^--data-dir {file}: {file} is a file; "):
        run(Settings(data_dir=str(file)))
    with pytest.raises(Failure, match=rf"^log\.dirs {file}/below: {file} is a file; "):
        run(Settings(set=(f"log.dirs={file}/below",)))


def test_a_log_of_changes_that_cannot_be_written(tmp_path: Path) -> None:
    where = f"ottla.state.change.log={tmp_path}/no/such"
    with pytest.raises(Failure, match=r"ottla\.state\.change\.log: cannot write .*No such file"):
        run(Settings(data_dir=str(tmp_path), set=(where,)))


def test_the_ready_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.123)
    _say_ready(ReadyInfo(1, ["127.0.0.1:43210"], ["D"]), 100.0)

    assert capsys.readouterr().out == (
        f"ottla {__version__} ready: broker 1 on 127.0.0.1:43210, data in D (0.12 s)\n"
    )


@pytest.mark.parametrize(
    ("address", "options"),
    [("localhost:9092", ""), ("127.0.0.1:43210", " --bootstrap 127.0.0.1:43210")],
)
def test_on_a_terminal_it_says_what_to_try_next(
    address: str,
    options: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _say_ready(ReadyInfo(1, [address], ["D"]), 0.0)

    ready, *more = capsys.readouterr().out.splitlines()
    assert ready.startswith(f"ottla {__version__} ready: ")
    assert f"  echo hello | ottla produce greetings{options}" in more
    assert f"  ottla consume greetings --from-beginning{options}" in more


@pytest.mark.parametrize(
    ("is_terminal", "exit_code", "said"),
    [
        (True, 0, "\r\x1b[Kottla: stopped; the data stay in {folder}\n"),  # over the ^C
        (True, 1, ""),  # the log has said what happened
        (False, 0, ""),
    ],
)
def test_on_a_terminal_it_says_that_it_has_stopped(
    is_terminal: bool,
    exit_code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    monkeypatch.setattr("ottla.broker_process.run", lambda config, **_: exit_code)

    assert run(Settings(data_dir=str(tmp_path))) == exit_code
    assert capsys.readouterr().err == said.format(folder=tmp_path)
