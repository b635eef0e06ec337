"""The pipelines as a user runs them: `ottla pipeline` in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from ottla.pipeline.run.stages import STAGES
from tests.support.counts import IS_FULL
from tests.support.job_runs import after_all_so_far
from tests.support.mirrors import records_of
from tests.support.need import need_java
from tests.support.other_spark import pyspark
from tests.support.ottla_process import OttlaProcess
from tests.support.pipeline_cli import PipelineCli
from tools.apache_kafka import ApacheKafkaBroker

RECORDS = 300
OLDEST_SPARK = "4.2.0"


@pytest.fixture
def cli(shared_broker: OttlaProcess, tmp_path: Path) -> PipelineCli:
    need_java()
    return PipelineCli(shared_broker.bootstrap, tmp_path)


def until_all_is_read(cli: PipelineCli, process: subprocess.Popen[str]) -> list[str]:
    """The first batches of both queries. The stages that were passed meanwhile."""
    assert process.stdout is not None
    rows: dict[str, int] = {}
    stages: list[str] = []
    while sum(rows.values()) < 2 * RECORDS:
        line = process.stdout.readline()
        assert line, cli.said.read_text()
        event = json.loads(line)
        assert event["job"] == "logs"
        if event["event"] == "stage":
            stages.append(event["stage"])
        else:
            rows[event["query"]] = rows.get(event["query"], 0) + event["rows"]
    return stages


@pytest.mark.timeout(300)
def test_run_status_and_replay(cli: PipelineCli) -> None:
    topic = "cli-logs"
    generate = ["--count", str(RECORDS), "--rate", "5", "--fast", "--topic", topic]
    cli.run("generate", "logs", *generate)
    # What Java has to say is not said among the lines for programs.
    talkative = ["--set", "spark.driver.extraJavaOptions=-Xlog:gc+init"]
    with cli.running(*cli.job_args("run", topic), *talkative) as process:
        # The last of all may come after the batch of the last query.
        assert until_all_is_read(cli, process)[:4] == list(STAGES[:4])
        assert "[gc,init]" in (cli.folder / "job" / "spark.log").read_text()
        found = cli.status()
        assert {one["state"] for one in found.values()} == {"running"}
        assert {one["process"] for one in found.values()} == {process.pid}
        refused = cli.run(*cli.job_args("run", topic), exit_code=1)
        assert f"process {process.pid} runs this job" in refused.stderr
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 0, cli.said.read_text()
        assert "Traceback" not in cli.said.read_text()
    found = cli.status()
    assert {name: one["state"] for name, one in found.items()} == {
        "lines": "ended",
        "error-rates": "ended",
    }
    assert found["lines"]["last"]["lag"] == 0
    assert cli.rows("logs") + cli.rows("dead_letters") == RECORDS
    shown = cli.run("pipeline", "show", "logs", "--output-prefix", f"{topic}-", "--json")
    assert json.loads(shown.stdout) == {"services": []}  # a minute of input: no rate is final yet

    # What came before goes, what comes after stays.
    from_ms = after_all_so_far()
    cli.run("generate", "logs", *generate, "--seed", "7")
    replayed = cli.run(*cli.job_args("replay", topic), "--from", str(from_ms), "--yes")
    events = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert sum(one["rows"] for one in events if one.get("query") == "lines") == RECORDS
    assert cli.rows("logs") + cli.rows("dead_letters") == RECORDS
    groups = json.loads(cli.run("groups", "describe", f"{topic}-logs.lines", "--json").stdout)
    assert groups[0]["lag"] == 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [None, OLDEST_SPARK] if IS_FULL else [None])
def test_what_a_terminal_shows(
    shared_broker: OttlaProcess, tmp_path: Path, version: str | None
) -> None:
    need_java()
    packages = [] if version is None else [pyspark(version)]
    cli = PipelineCli(shared_broker.bootstrap, tmp_path, *packages)
    assert version is None or cli.spark_version() == f"{version}\n"
    topic = f"cli-terminal-{version}"
    cli.run("generate", "logs", "--count", str(RECORDS), "--rate", "5", "--fast", "--topic", topic)
    args = [one for one in cli.job_args("run", topic) if one != "--json"]
    exit_code, frames = cli.run_on_terminal(*args, "--once")
    assert exit_code == 0, frames
    assert any("no batch yet after" in frame for frame in frames)
    table, said = frames[-1].split("ottla: ")
    assert said.startswith(f"rows read: lines {RECORDS}, error-rates {RECORDS}; written to topics")
    assert max(map(len, table.splitlines())) <= 80
    assert "all was read; `ottla pipeline run logs` continues from here" in table
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    assert rows["QUERY"][:3] == ["QUERY", "BATCH", "ROWS"]
    assert rows["lines"][2] == rows["error-rates"][2] == str(RECORDS)
    assert cli.rows("logs") + cli.rows("dead_letters") == RECORDS


@pytest.mark.timeout(300)
def test_a_mirror(
    cli: PipelineCli, shared_broker: OttlaProcess, apache_kafka: ApacheKafkaBroker, tmp_path: Path
) -> None:
    topic = "cli-mirror"
    generate = ["--count", str(RECORDS), "--rate", "5", "--fast", "--topic", topic]
    cli.run("generate", "logs", *generate)
    options = ["--set", f"target={apache_kafka.bootstrap}", "--folder", str(tmp_path / "mirror")]
    done = cli.run("pipeline", "run", "mirror", "--once", "--topics", topic, *options)
    assert f"rows read: mirror {RECORDS}" in done.stderr
    assert "batch 0, 300 rows" in done.stdout
    mirrored = records_of(apache_kafka.bootstrap, topic)
    assert sum(map(len, mirrored.values())) == RECORDS
    assert mirrored == records_of(shared_broker.bootstrap, topic)
