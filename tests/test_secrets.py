"""Nothing that a file holds beside its measurements reaches the database, a report or a message."""

import io
import json
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from tests.builders_cli import run_command

from builders_ncu import kernel, report
from fuzz.seeds import all_seeds

NSYS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "nsight_systems"
#: The first stands in the recordings wherever an environment, a command line, a path or a name was;
#: the others stand in the forms that were recorded in a clean environment.
SECRETS = ("SCRUBBED-CANARY", "LD_PRELOAD", "/tmp/nvidia", "quadd_session", "scrubbed-host", "scrubbed-user")
FOLDERS = (
    "nsys-ai",
    "flameox",
    "lighttransport-gemm",
    "nvtx_samples/2022.4.2",
    "nvtx_samples/2023.4.4",
    "nvtx_samples/2024.2.3",
)
needs_corpus = pytest.mark.skipif(not NSYS.is_dir(), reason="the corpus of recordings is not there")


def leaks(text: str) -> list[str]:
    """Return the secrets that a text holds."""
    return [secret for secret in SECRETS if secret.lower() in text.lower()]


def stored_texts(database: Path) -> Iterator[tuple[str, str]]:
    """Yield every text of a database with its table and column."""
    with closing(duckdb.connect(str(database), read_only=True)) as con:
        columns = con.execute(
            "select schema_name, table_name, column_name from duckdb_columns() "
            "where not internal and data_type like 'VARCHAR%' order by all"
        ).fetchall()
        for schema, table, column in columns:
            sql = f'select distinct "{column}" from "{schema}"."{table}" where "{column}" is not null'
            for (text,) in con.execute(sql).fetchall():
                yield f"{table}.{column}", str(text)


@needs_corpus
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_secret_of_a_capture_leaves_its_file(tmp_path: Path, folder: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(NSYS / folder, run, ignore=shutil.ignore_patterns("README.md", "LICENSE", "*.cu"))
    for path in (run, *run.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    held = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert SECRETS[0].encode() in held
    done = run_command(
        "diagnose", "run", "--db", "runs.duckdb", "-o", "out", "--format", "json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    looked = run_command("inspect", "run", "--format", "json", cwd=tmp_path)
    for text in (done.stdout, done.stderr, looked.stdout, looked.stderr):
        assert leaks(text) == []
    texts = list(stored_texts(tmp_path / "runs.duckdb"))
    assert len(texts) > 50
    assert [(place, leaks(text)) for place, text in texts if leaks(text)] == []
    written = [
        path for path in (tmp_path / "out").rglob("*") if path.suffix in (".md", ".json", ".svg", ".html")
    ]
    assert written
    for path in written:
        assert leaks(path.read_text(encoding="utf-8")) == [], path.name


def test_the_check_would_see_a_leak(tmp_path: Path) -> None:
    with closing(duckdb.connect(str(tmp_path / "x.duckdb"))) as con:
        con.execute("create table sources as select 'a scrubbed-canary-7' as notes")
    assert [leaks(text) for _, text in stored_texts(tmp_path / "x.duckdb")] == [["SCRUBBED-CANARY"]]


#: Stands in small inputs of every format, wherever one may carry what is nobody's business.
CANARY = "sk-zebrafinch-9f3"
_KEYS = (
    *("prompt", "prompts", "messages", "content", "text", "output", "response", "generated_text", "body"),
    *("api_key", "headers", "Authorization", "env", "environment", "command", "cmd", "cli_command", "argv"),
    *("url", "base_url", "path", "hostname", "user", "error_msg", "payload", "system_prompt", "stack"),
)
_LOG_LINES = f"""
INFO 01-18 09:00:00 [utils.py:1] non-default args: {{'api_key': ['{CANARY}'], 'chat_template': '{CANARY}'}}
INFO 01-18 09:00:00 [logger.py:1] Received request cmpl-1: prompt: '{CANARY}', params: SamplingParams(n=1).
INFO:     127.0.0.1:4711 - "POST /v1/completions?api_key={CANARY} HTTP/1.1" 200 OK
HF_TOKEN={CANARY} python -m vllm.entrypoints.openai.api_server --api-key {CANARY}
Authorization: Bearer {CANARY}
ERROR 01-18 09:00:00 [core.py:1] ValueError: the prompt '{CANARY}' is too long
""".lstrip()
_NSYS_ROWS = """
create table TARGET_INFO_SYSTEM_ENV (globalVid integer, devStateName text, name text, value text);
insert into TARGET_INFO_SYSTEM_ENV values (1, 'HF_TOKEN', 'HF_TOKEN', ':canary');
create table PROCESSES (globalPid integer, pid integer, name text);
insert into PROCESSES values (1, 1, '/home/:canary/python');
create table DIAGNOSTIC_EVENT (timestamp integer, source integer, severity integer, text text);
insert into DIAGNOSTIC_EVENT values (1, 1, 1, 'command line: --api-key :canary');
create table ANALYSIS_FILE (id integer, filename text, content blob);
insert into ANALYSIS_FILE values (1, '/home/:canary', ':canary');
create table META_DATA_CAPTURE (name text, value text);
insert into META_DATA_CAPTURE values ('TARGET:command', 'serve :canary'), ('ENV', 'HF_TOKEN=:canary');
create table TARGET_INFO_SESSION_ENV (name text, value text);
insert into TARGET_INFO_SESSION_ENV values ('HF_TOKEN', ':canary');
insert into StringIds values (900001, ':canary'), (900002, '/home/:canary/serve.py');
"""


def _laced(value: Any) -> Any:
    """Return JSON data in which each object carries the canary under every name of a secret that it lacks."""
    if isinstance(value, list):
        return [_laced(item) for item in value]
    if not isinstance(value, dict):
        return value
    laced = {key: _laced(item) for key, item in value.items()}
    # What a format has comes first: readers know it by its beginning.
    return {**laced, **{key: CANARY for key in _KEYS if key not in value}}


def _laced_lines(text: str) -> str:
    """Return a JSON file, or one with a document in each line, with the canary in it."""
    try:
        return json.dumps(_laced(json.loads(text)))
    except json.JSONDecodeError:
        return "".join(f"{json.dumps(_laced(json.loads(line)))}\n" for line in text.splitlines())


def _laced_scrapes(text: str) -> str:
    """Return scrapes with secrets as labels, help, exemplars, and series of their own."""
    labelled = re.sub(r"^(vllm:\w+)\{", rf'\1{{api_key="{CANARY}",user="{CANARY}",', text, flags=re.MULTILINE)
    more = f'# HELP up {CANARY}\nbuild_info{{command="{CANARY}"}} 1\n'
    return re.sub(r"^(# scrape .*\n)", lambda match: match[1] + more, labelled, flags=re.MULTILINE)


def _laced_export(content: bytes, folder: Path) -> bytes:
    """Return an Nsight Systems export with environment, command line, processes and strings of nobody."""
    path = folder / "laced.sqlite"
    path.write_bytes(content)
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(_NSYS_ROWS.replace(":canary", CANARY))
    return path.read_bytes()


def _laced_table(text: str) -> str:
    """Return a CSV file with a column of secrets behind the last."""
    head, *lines = text.splitlines()
    return "\n".join((f"{head},api_key", *(f"{line},{CANARY}" for line in lines))) + "\n"


def write_laced_inputs(folder: Path) -> set[str]:
    """Write an input of each format with the canary in it; return the readers that must read one."""
    folder.mkdir()
    readers = set()
    for number, seed in enumerate(all_seeds()):
        content = seed.files.get("")
        if content is None or seed.name.endswith((".gz", ".xz", ".zst", ".arrows")):
            continue
        if seed.name.endswith((".json", ".jsonl")):
            content = _laced_lines(content.decode()).encode()
        elif seed.name.endswith(".sqlite"):
            content = _laced_export(content, folder.parent)
        elif seed.name.endswith(".prom"):
            content = _laced_scrapes(content.decode()).encode()
        elif seed.name.endswith(".log"):
            content += b"\n" + _LOG_LINES.encode()
        elif seed.name in ("history.csv", "k6.csv", "azure.csv", "kern_sum.csv"):
            content = _laced_table(content.decode()).encode()
        elif seed.name.endswith(".ncu-rep"):
            content = report(
                [kernel({"dram__bytes.sum": 1.5e6, "gpu__time_duration.sum": 1e4})],
                f"/opt/ncu --set full ./app --api-key {CANARY}",
            )
        (folder / f"{number:02d}-{seed.name}").write_bytes(content)
        if CANARY.encode() in content:
            readers.add(seed.reader)
    return readers


def _everything(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each file below a folder, what a bundle holds, and its tables as text."""
    for file in sorted(path.rglob("*")):
        if not file.is_file():
            continue
        yield file.name, file.read_bytes()
        if file.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    data = archive.read(name)
                    yield name, data
                    if name.endswith(".parquet"):
                        yield name, pl.read_parquet(io.BytesIO(data)).write_json().encode()


def test_no_secret_of_any_format_reaches_any_output(tmp_path: Path) -> None:
    readers = write_laced_inputs(tmp_path / "run")
    assert len(readers) >= 24, readers
    written = tmp_path / "written"
    written.mkdir()
    place = ("--db", "written/runs.duckdb")
    said = []
    for arguments in (
        ("diagnose", "run", *place, "-o", "written/out", "--self-contained", "--format", "json"),
        ("inspect", "run"),
        ("export", "run", *place, "--bundle", "written/b.zip", "--perfetto", "written/t.pftrace"),
    ):
        done = run_command("--debug", *arguments, cwd=tmp_path)
        assert done.returncode == 0, (arguments, done.stderr)
        said.append(done.stdout + done.stderr)
    with closing(duckdb.connect(str(written / "runs.duckdb"), read_only=True)) as con:
        used = con.execute(
            "select distinct reader from sources where status in ('read', 'damaged')"
        ).fetchall()
    assert readers <= {name for (name,) in used}
    mark = CANARY.removeprefix("sk-")
    assert [place for place, text in stored_texts(written / "runs.duckdb") if mark in text] == []
    assert [text for text in said if mark in text] == []
    found = list(_everything(written))
    assert {"report.html", "report.md", "report.json", "t.pftrace", "runs.duckdb", "README.txt"} <= {
        name for name, _ in found
    }
    leaking = [name for name, data in found if mark.encode() in data or mark.encode("utf-16-le") in data]
    assert leaking == []
