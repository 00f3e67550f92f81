"""Inputs whose every text is an attack or an accident: no output runs, links, hides or forges anything."""

import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as Xml

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt
from markdown_it.token import Token
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from builders_cli import write_run
from builders_hostile import ALL, HOST, PAYLOADS, write_hostile_run, write_hostile_sweep
from kvcliff.cli.output import Envelope
from kvcliff.cli.root import root

HTML_TAGS = frozenset(
    (
        *(
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "main",
            "header",
            "h1",
            "h2",
            "p",
            "div",
            "strong",
        ),
        *("em", "code", "pre", "nav", "ul", "ol", "li", "a", "figure", "figcaption", "img", "section"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    )
)
VOID = frozenset(("meta", "img"))


NAME = "".join(PAYLOADS[key] for key in ("path", "script", "sql", "colour", "link", "heading", "reversed"))


def invoke(*arguments: str | Path, exit_codes: Sequence[int] = (0,)) -> Result:
    """Run a command; a bug (exit 70) or another unwanted exit fails the test."""
    result = CliRunner().invoke(root, [str(argument) for argument in arguments])
    assert result.exit_code in exit_codes, (result.exit_code, result.stderr[-2000:], result.exception)
    return result


def steering(text: str) -> list[str]:
    """Return the characters of a text that a terminal would obey, or that hide or turn what stands there."""
    return sorted({char for char in text if not (char.isprintable() or char in "\n\t\u00a0")})


@dataclass(frozen=True)
class Diagnosed:
    """What a hostile run left behind: its folder, the database, reports, and what was printed."""

    work: Path
    database: Path
    run: Path
    report: Path
    printed: str

    def run_id(self) -> str:
        """Return the id of the only run."""
        data = json.loads(invoke("runs", "list", "--db", self.database, "--format", "json").stdout)["data"]
        (run,) = data["runs"]
        return str(run["run_id"])


def _diagnose(work: Path, run: Path) -> Diagnosed:
    database, report = work / "d.duckdb", work / "report"
    result = invoke("diagnose", run, "--db", database, "-o", report, "--self-contained")
    return Diagnosed(work, database, run, report, result.stdout + result.stderr)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Diagnosed:
    work = tmp_path_factory.mktemp("hostile")
    return _diagnose(work, write_hostile_run(work / "run", NAME))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Diagnosed:
    work = tmp_path_factory.mktemp("hostile")
    return _diagnose(work, write_hostile_sweep(work / f"x\n{PAYLOADS['colour']}{PAYLOADS['reversed']}"))


@pytest.fixture(params=["run", "sweep"])
def diagnosed(request: pytest.FixtureRequest) -> Diagnosed:
    chosen = request.getfixturevalue(request.param)
    assert isinstance(chosen, Diagnosed)
    return chosen


def test_the_texts_reach_the_database(run: Diagnosed) -> None:
    """Else the other tests would show nothing."""
    with closing(duckdb.connect(str(run.database), read_only=True)) as con:
        sources = con.execute(
            "select reader, status from sources where reader is not null order by 1"
        ).fetchall()
        assert sources == [
            ("kvcliff_client", "read"),
            ("log", "read"),
            ("log", "read"),
            ("nsight_systems", "read"),
            ("prometheus", "read"),
            ("run_config", "read"),
        ]
        for table, column in (
            ("kernel_names", "name"),
            ("requests", "tag"),
            ("settings", "value"),
            ("sources", "path"),
            ("runs", "labels"),
            ("runs", "name"),
        ):
            sql = f"select count(*) from {table} where contains({column}, 'alert(1)')"
            assert con.execute(sql).fetchall() != [(0,)], table


def test_the_database_is_whole(diagnosed: Diagnosed) -> None:
    with closing(duckdb.connect(str(diagnosed.database), read_only=True)) as con:
        tables = [row[0] for row in con.execute("select table_name from duckdb_tables()").fetchall()]
        assert {"runs", "findings", "sources", "swap_points"} <= set(tables)
        for table in tables:
            con.execute(f'select * from "{table}"').fetchall()
        assert con.execute("select count(*) from runs").fetchall() == [(1,)]


def tokens(markdown: str) -> Iterator[Token]:
    """Yield all tokens of a text as a forge would read it."""
    pending = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)
    while pending:
        token = pending.pop()
        pending.extend(token.children or ())
        yield token


def check_markdown(markdown: str, targets: str) -> None:
    """Assert that no text became markup: no HTML, links and images of ours alone, nothing that steers."""
    assert steering(markdown.replace("\u2060", "")) == []
    assert max(map(len, markdown.splitlines())) < 60_000
    for token in tokens(markdown):
        assert token.type not in ("html_inline", "html_block"), token.content
        for name in ("href", "src"):
            target = token.attrGet(name)
            assert target is None or re.fullmatch(targets, str(target)), target


def test_markdown(diagnosed: Diagnosed) -> None:
    markdown = (diagnosed.report / "report.md").read_text(encoding="utf-8")
    check_markdown(markdown, r"figures/[a-z_]+\.(svg|png)")
    headings = [line for line in markdown.splitlines() if re.match(r"#{1,6} ", line)]
    data = json.loads((diagnosed.report / "report.json").read_bytes())
    assert len(headings) == 1 + len(data["sections"])


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.comments: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_pi(self, data: str) -> None:
        self.comments.append(data)


def test_html(diagnosed: Diagnosed) -> None:
    text = (diagnosed.report / "report.html").read_text(encoding="utf-8")
    assert steering(text) == []
    page = Page(text)
    assert page.open == []
    assert page.comments == []
    assert {tag for tag, _ in page.tags} <= HTML_TAGS
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("href", "src", "action", "style", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:image/svg+xml;base64,")), (tag, value)


def test_json(diagnosed: Diagnosed) -> None:
    raw = (diagnosed.report / "report.json").read_bytes()
    assert steering(raw.decode("ascii")) == []
    assert json.loads(raw)["schema"] == "kvcliff.report/1"


def check_svg(data: bytes) -> None:
    """Assert that an image is well-formed and holds nothing that runs or loads."""
    assert steering(data.decode("utf-8")) == []
    for element in Xml.fromstring(data).iter():
        name = str(element.tag).rpartition("}")[2].lower()
        assert name not in ("script", "foreignobject", "image", "a", "iframe"), name
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on"), key
            if key.endswith("href"):
                assert value.startswith("#"), value


def test_figures(diagnosed: Diagnosed) -> None:
    images = sorted(diagnosed.report.rglob("*.svg"))
    assert images
    for image in images:
        check_svg(image.read_bytes())


def test_nothing_is_written_elsewhere(diagnosed: Diagnosed) -> None:
    names = {path.name for path in diagnosed.work.iterdir()}
    assert names - {"d.duckdb", "report", diagnosed.run.name} == set()
    written = {path.relative_to(diagnosed.report).as_posix() for path in diagnosed.report.rglob("*")}
    assert all(re.fullmatch(r"(figures/)?[a-z_]+(\.[a-z]+)?", name) for name in written), written
    assert not Path("/tmp/kvcliff_escaped").exists()


def test_the_default_report_folder_stays_inside(
    run: Diagnosed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    invoke("report", run.run_id(), "--db", run.database)
    (folder,) = (tmp_path / "kvcliff-reports").iterdir()
    assert (folder / "report.md").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["kvcliff-reports"]


@pytest.mark.parametrize("name", ["..", "../../x", "/etc/x", ".", "\x1b[31m", "\u202ex", "漢" * 3000, "a\nb"])
def test_run_names_are_no_paths(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w").mkdir()
    monkeypatch.chdir(tmp_path / "w")
    folder = tmp_path / "w" / "run"
    folder.mkdir()
    shutil.copy(Path(__file__).parent.parent / "sample_traces/steady/metrics.prom.xz", folder)
    (folder / "run.toml").write_text(f"name = {json.dumps(name, ensure_ascii=False)}\n", encoding="utf-8")
    result = invoke("diagnose", "run")
    assert steering(result.stdout + result.stderr) == []
    assert len(list((tmp_path / "w" / "kvcliff-reports").iterdir())) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"w"}


def test_terminal(diagnosed: Diagnosed) -> None:
    database, run_id = diagnosed.database, diagnosed.run_id()
    assert steering(diagnosed.printed) == []
    for arguments in (
        ("inspect", diagnosed.run),
        ("runs", "list", "--db", database),
        ("runs", "show", run_id, "--db", database),
        ("sql", "run", "select * from settings", "--db", database),
        ("sql", "run", "select left(name, 3000), short_name[:3000] from kernel_names", "--db", database),
        ("sql", "run", "select * from requests", "--db", database),
        ("sql", "run", "select chr(27) || '[31m' as \"\x1b[32mcolumn\"", "--db", database),
        ("report", run_id, "-o", "-", "--db", database),
    ):
        result = invoke(*arguments)
        text = (result.stdout + result.stderr).replace("\u2060", "")
        assert steering(text) == [], arguments


def test_nothing_forges_a_line(sweep: Diagnosed) -> None:
    """The name of the run's folder holds a line break."""
    lines = invoke("inspect", sweep.run).stdout.splitlines()
    assert lines[1].startswith("file ")
    assert len(sweep.printed.splitlines()) == len(
        [line for line in sweep.printed.splitlines() if line.strip()]
    )
    with closing(duckdb.connect(str(sweep.database), read_only=True)) as con:
        assert con.execute("select count(*) from runs where contains(name, chr(10))").fetchall() == [(0,)]


def test_json_envelopes_do_not_steer(diagnosed: Diagnosed) -> None:
    for arguments in (
        ("inspect", diagnosed.run),
        ("runs", "list", "--db", diagnosed.database),
        ("runs", "show", diagnosed.run_id(), "--db", diagnosed.database),
        ("sql", "run", "select * from settings", "--db", diagnosed.database),
    ):
        text = invoke(*arguments, "--format", "json").stdout
        assert steering(text) == []
        assert json.loads(text)["schema"] == "kvcliff.result/1"


def test_envelope_keeps_its_text_and_always_encodes() -> None:
    text = "".join(map(chr, range(0x300))) + "\u202e\u2028\ufeff\udcff\ud800 é 漢 👩"
    written = Envelope("x", {"text": text}).to_json()
    assert json.loads(written)["data"]["text"] == text
    assert steering(written) == []
    assert "é 漢 👩" in written.encode().decode()


def test_exports(run: Diagnosed, tmp_path: Path) -> None:
    bundle, trace = tmp_path / "b.zip", tmp_path / "t.pftrace"
    invoke("export", run.run_id(), "--bundle", bundle, "--perfetto", trace, "--db", run.database)
    with zipfile.ZipFile(bundle) as archive:
        for name in archive.namelist():
            assert re.fullmatch(r"README\.txt|[a-z0-9_/]+\.[a-z]+", name), name
            data = archive.read(name)
            if name.endswith(".parquet"):
                texts = str(pl.read_parquet(io.BytesIO(data)).select(pl.col(pl.String)).to_dicts())
            else:
                texts = data.decode("utf-8", "replace") if name.endswith((".md", ".json", ".html")) else ""
            for leak in (HOST, "alert(1)", "drop table", "onerror", "kvcliff_escaped"):
                assert leak not in texts, (name, leak)
    content = trace.read_bytes()
    assert not [code for code in (b"\x1b[31m", b"\x1b]8", "\u202e".encode()) if code in content]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A pass over a root whose folders, labels and levels are hostile: its outputs and what it printed."""
    work = tmp_path_factory.mktemp("night")
    runs = work / "root"
    write_hostile_sweep(runs / f"a\n{PAYLOADS['script'].replace('/', '')}")
    write_hostile_sweep(runs / f"b {PAYLOADS['colour']}{PAYLOADS['pipes']}")
    for number, folder in enumerate(sorted(runs.iterdir())):
        labels = f"[labels]\nmodel = {json.dumps(ALL, ensure_ascii=False)}\n".replace("\x7f", "\\u007f")
        (folder / "run.toml").write_text(labels, encoding="utf-8")
        with (sorted(folder.iterdir())[0] / "server.log").open("a", encoding="utf-8") as log:
            log.write(f"line {number}\n")
    broken = Path(os.fsdecode(os.fsencode(runs / "c") + b"\xff[x](www.evil.example)"))
    broken.mkdir()
    (broken / "x.bin").write_bytes(b"\x00\x01")
    places = ("--db", work / "n.duckdb", "--into", work / "out", "--quiet", "0")
    return work / "out", invoke("nightly", runs, *places, exit_codes=(0, 4, 10))


def test_nightly_outputs(night: tuple[Path, Result]) -> None:
    out, result = night
    assert steering(result.stdout + result.stderr) == []
    index = (out / "index.md").read_text(encoding="utf-8")
    check_markdown(index, r"(figures|runs)/[^:\s]*")
    assert all((out / target).is_file() for target in re.findall(r"\]\(((?:figures|runs)/[^)]+)\)", index))
    junit = Xml.fromstring((out / "junit.xml").read_bytes())
    assert len(junit.findall("testsuite")) == 3
    for image in sorted((out / "figures").glob("*.svg")):
        check_svg(image.read_bytes())
    assert steering((out / "summary.txt").read_text(encoding="utf-8")) == []
    assert json.loads((out / "nightly.json").read_bytes())["data"]["runs"]
    assert steering((out / "nightly.json").read_text(encoding="utf-8")) == []


def test_nightly_metrics(night: tuple[Path, Result]) -> None:
    text = (night[0] / "kvcliff.prom").read_text(encoding="utf-8")
    assert text.count("# EOF") == 1 + text.count("\\n# EOF") + text.count("# EOF ")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names
    assert all(name.startswith("kvcliff_nightly_") for name in names)
    assert {family.name for family in text_families(text)} >= names


def test_comparison(night: tuple[Path, Result], tmp_path: Path) -> None:
    database = night[0].parent / "n.duckdb"
    listed = json.loads(invoke("runs", "list", "--db", database, "--format", "json").stdout)["data"]["runs"]
    first, second = (run["run_id"] for run in listed)
    written = invoke("compare", first, second, "--db", database, "--format", "md", exit_codes=(0, 4, 10))
    check_markdown(written.stdout, r"[a-z_]+\.(svg|png)")
    printed = invoke("compare", first, second, "--db", database, exit_codes=(0, 4, 10))
    assert steering(printed.stdout + printed.stderr) == []


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to '{0}/out.csv'",
        "copy runs to '{0}/out.parquet' (format parquet)",
        "copy runs from '/etc/passwd'",
        "export database '{0}/out'",
        "import database '{0}/out'",
        "attach '{0}/other.duckdb'",
        "attach '{0}/other.duckdb' as o (read_only)",
        "attach ':memory:' as m; create table m.t as select 1",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from read_blob('/etc/passwd')",
        "select * from read_json('/etc/passwd')",
        "select * from read_parquet('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from glob('/etc/*')",
        "select * from 'http://127.0.0.1:1/x.csv'",
        "install httpfs",
        "load httpfs",
        "load '{0}/x.duckdb_extension'",
        "force install sqlite from 'http://127.0.0.1:1'",
        "set enable_external_access = true",
        "set allow_unsigned_extensions = true",
        "set lock_configuration = false",
        "set home_directory = '{0}'",
        "set secret_directory = '{0}'",
        "set temp_directory = '{0}'",
        "set log_query_path = '{0}/log'",
        "set memory_limit = '1TB'",
        "reset enable_external_access",
        "pragma enable_profiling",
        "pragma profiling_output='{0}/p'",
        "create secret s (type s3)",
        "create temp table t as select * from '/etc/passwd'",
        "create macro m() as 1; drop table runs",
        "insert into runs select * from runs",
        "delete from findings",
        "update runs set name = 'x'",
        "drop table runs",
        "select 1; drop table runs",
        "begin; delete from runs; commit",
        "prepare p as delete from runs; execute p",
        "call pragma_version(); delete from runs",
        "alter table runs rename to walks",
        "vacuum runs; delete from runs",
        "select getenv('HOME')",
        "select * from duckdb_secrets(); copy runs to '{0}/out.csv'",
    ],
)
def test_queries_reach_nothing_but_the_database(query: str, run: Diagnosed, tmp_path: Path) -> None:
    before = run.database.read_bytes()
    with closing(duckdb.connect(str(tmp_path / "other.duckdb"))) as con:
        con.execute("create table secret as select 'secret' as text")
    other = (tmp_path / "other.duckdb").read_bytes()
    result = invoke("sql", "run", query.format(tmp_path), "--db", run.database, exit_codes=(2,))
    assert result.stdout == ""
    assert result.stderr.startswith("error: the query failed: ")
    assert run.database.read_bytes() == before
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"other.duckdb": other}


def test_a_hostile_database_is_only_read(tmp_path: Path) -> None:
    """Views of somebody else's database run when it is read; they reach no other file."""
    database = tmp_path / "d.duckdb"
    run = write_run(tmp_path / "easy")
    invoke("ingest", run, "--db", database)
    with closing(duckdb.connect(str(database))) as con:
        con.execute("drop table settings")
        con.execute("create view settings as select * from read_csv('/etc/passwd')")
        con.execute("create macro threshold(name) as (select content from read_text('/etc/passwd'))")
    before = database.read_bytes()
    for arguments in (
        ("report", "easy", "-o", tmp_path / "out"),
        ("runs", "show", "easy"),
        ("sql", "run", "select * from settings"),
        ("export", "easy", "--bundle", tmp_path / "b.zip"),
    ):
        result = invoke(*arguments, "--db", database, exit_codes=(0, 1, 2, 4))
        assert "root:" not in result.stdout + result.stderr
    assert database.read_bytes() == before
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"root:" not in path.read_bytes()


def test_no_network_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"a connection was asked for: {arguments}")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(f"socket.socket.{name}", refuse, raising=False)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(f"socket.{name}", refuse)
    monkeypatch.chdir(tmp_path)
    run = write_hostile_run(tmp_path / "run", "n")
    invoke("inspect", run)
    invoke("diagnose", run, "--self-contained")
    invoke("report", "n", "-o", "again", "--self-contained")
    invoke("doctor")
