"""The commands that need no Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ottla.cli.errors import ExitCode
from ottla.cli.main import main
from ottla.pipeline.jobs.registry import summaries
from ottla.pipeline.run.progress import ProgressFolder, QueryProgress
from ottla.pipeline.run.run_lock import RunLock


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["pipeline", *args]) == ExitCode.OK
    return capsys.readouterr().out


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "list").splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "activity", "logs", "metrics", "mirror"]
    assert [one["name"] for one in json.loads(shown(capsys, "list", "--json"))] == [
        *("activity", "logs", "metrics", "mirror")
    ]


def test_list_and_help_import_no_spark() -> None:
    program = (
        "import sys\n"
        "from ottla.cli.main import main\n"
        "main(['pipeline', 'list']), main(['pipeline', 'run', '--help'])\n"
        "sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_describe_says_what_a_run_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(
        shown(capsys, "describe", "logs", "--set", "output_prefix=x-", "--topics", "a,b", "--json")
    )
    assert found["reads"] == ["a", "b"]
    by_name = {query["name"]: query for query in found["queries"]}
    assert by_name["error-rates"]["topics"] == ["x-logs-error-rates"]
    assert by_name["error-rates"]["group"] == "ottla-pipeline-logs.error-rates"
    assert "dead_letters" in by_name["lines"]["tables"]
    text = shown(capsys, "describe", "logs")
    assert text.startswith("logs: Log lines of many services")
    assert "topic logs at localhost:9092" in text
    assert "error-rates: " in text
    assert "group   ottla-pipeline-logs.error-rates\n" in text


def test_describe_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "describe", "mirror", "--topics", "a"]) == ExitCode.OK
    said = capsys.readouterr()
    assert "option target: is missing" in said.err
    assert "host:port of the cluster that records are copied to" in said.out


def test_status_of_what_ran_runs_and_died(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["status", "logs", "--folder", str(tmp_path)]
    assert main(["pipeline", *args]) == ExitCode.FAILED
    assert f"nothing has run in {tmp_path}" in capsys.readouterr().err
    progress = QueryProgress("logs", "lines", "a-group", state="running")
    ProgressFolder(tmp_path).write(progress)
    with RunLock(tmp_path):
        text = shown(capsys, *args)
    assert "runs it" in text
    assert text.splitlines()[2].split()[:2] == ["lines", "running"]
    text = shown(capsys, *args)
    assert text.splitlines()[0] == "logs: not running"
    assert text.splitlines()[2].split()[:2] == ["lines", "died"]
    progress.state, progress.error = "failed", "ValueError: told to fail"
    ProgressFolder(tmp_path).write(progress)
    assert shown(capsys, *args).splitlines()[-1] == "lines: ValueError: told to fail"
    (found,) = json.loads(shown(capsys, *args, "--json"))
    assert (found["state"], found["process"]) == ("failed", None)


def without_the_extra(*args: str) -> list[str]:
    """The lines that `ottla pipeline` says."""
    program = (
        "import sys\n"
        "from ottla.cli.pipeline.options import EXTRA\n"
        "sys.modules.update(dict.fromkeys(EXTRA))\n"
        "from ottla.cli.main import main\n"
        "sys.exit(main(['pipeline', *sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", program, *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_status_needs_nothing_of_the_extra(tmp_path: Path) -> None:
    ProgressFolder(tmp_path).write(QueryProgress("logs", "lines", "a-group", state="ended"))
    assert without_the_extra("status", "logs", "--folder", str(tmp_path))[0] == "logs: not running"


@pytest.mark.parametrize(("name", "summary"), summaries().items())
def test_describe_needs_nothing_of_the_extra(name: str, summary: str) -> None:
    given = ["--topics", "a", "--set", "target=b:1"] if name == "mirror" else []
    lines = without_the_extra("describe", name, *given)
    assert lines[0] == f"{name}: {summary}"
    assert any(f"ottla-pipeline-{name}." in line for line in lines)


def test_status_of_a_folder_needs_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "status", "--folder", str(tmp_path)]) == ExitCode.USAGE
    assert "--folder needs the NAME" in capsys.readouterr().err


def test_maintain_makes_few_files_of_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = ["--lake", str(tmp_path)]
    assert main(["pipeline", "maintain", *lake]) == ExitCode.FAILED
    assert f"there are no tables in {tmp_path}" in capsys.readouterr().err
    for number in range(3):
        write_deltalake(tmp_path / "words", pa.table({"n": [number]}), mode="append")
    assert main(["pipeline", "maintain", "gone", *lake]) == ExitCode.FAILED
    assert "there is no table gone" in capsys.readouterr().err
    (dry,) = json.loads(shown(capsys, "maintain", "--dry-run", "--json", *lake))
    assert (dry["files_before"], dry["files"]) == (3, 3)
    (done,) = json.loads(shown(capsys, "maintain", "--json", *lake))
    assert (done["table"], done["files_before"], done["files"]) == ("words", 3, 1)
    assert shown(capsys, "maintain", "words", *lake).splitlines()[1].split()[:3] == [
        *("words", "1", "1")
    ]
