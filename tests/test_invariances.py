"""What means nothing changes nothing: diagnoses of files that are moved, renamed, mixed or split."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from accuracy.engine_sim import Engine
from builders_engine_files import closed_loop, request_lines, requests_of, vllm_log, vllm_scrapes, write
from kvcliff.findings.diagnosis import run_findings
from kvcliff.store.ingest import stage_run
from kvcliff.store.models import mart_names
from kvcliff.store.plan import plan_run

S = 1_000_000_000
END_S = 45
#: Stamps without a year are read as of the year 2000.
LOG_YEAR_S = 820_454_400
#: Larger numbers in a column of nanoseconds are instants, smaller ones lengths of time.
_INSTANT_NS = 10**18
#: Which file holds a row and its number there.
_PLACES = frozenset({"source_id", "interval_no"})

few = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    # A smaller example is not worth the diagnoses.
    phases=(Phase.explicit, Phase.generate),
)
Rows = list[tuple[object, ...]]
Part = Sequence[str]


@dataclass(frozen=True)
class Files:
    """Lines of the files of one run: each kind in one file or more.

    Attributes:
        logs: log lines.
        scrapes: blocks of text.
        requests: JSON lines.
        shift_s: how far all clocks are moved.
    """

    logs: tuple[Part, ...]
    scrapes: tuple[Part, ...]
    requests: tuple[Part, ...]
    shift_s: int = 0


@dataclass(frozen=True)
class Diagnosis:
    """Rows of all marts by name, in a fixed order, and the verdicts."""

    marts: dict[str, Rows]
    verdicts: Rows


@cache
def story() -> Files:
    """Return a run that reaches its KV ceiling and preempts."""
    history = closed_loop(
        Engine(block_count=120, running_limit=32, step_s=0.04, decode_s=0.002),
        clients=12,
        prompt_tokens=64,
        output_tokens=160,
        end_s=END_S,
        until_s=30,
    )
    assert len(history.preemptions) >= 10
    return Files(
        (vllm_log(history),),
        (vllm_scrapes([history], 0.5, end_s=END_S),),
        (request_lines(requests_of(history)),),
    )


@cache
def base(without: frozenset[str] = frozenset()) -> Diagnosis:
    """Return the diagnosis of the run as it is, without some columns."""
    found = diagnose(story(), without)
    assert [row for row in found.verdicts if row[:2] == ("swap_point", "found")]
    return found


def diagnose(files: Files, without: frozenset[str] = frozenset(), other: str = "") -> Diagnosis:
    """Return the diagnosis of files, whose clocks are stated.

    Args:
        files: the run.
        without: columns that are not compared.
        other: replica whose rows are left out.
    """
    with TemporaryDirectory() as scratch, duckdb.connect() as con:
        folder = Path(scratch) / "run"
        for name, parts in (
            ("server-{}.log", files.logs),
            ("metrics-{}.prom", files.scrapes),
            ("requests-{}.jsonl", files.requests),
        ):
            for number, part in enumerate(parts):
                write(folder, name.format(number), part)
        write(folder, "run.toml", _config(files.shift_s))
        stage_run(con, plan_run(folder))
        run_findings(con)
        marts = {name: _rows(con, name, without | _PLACES, other, files.shift_s) for name in mart_names()}
        verdicts = con.execute("select finding, verdict, severity, confidence from findings").fetchall()
    return Diagnosis(marts, verdicts)


def _config(shift_s: int) -> list[str]:
    rules = (("*", 0), ("server*", LOG_YEAR_S))
    tables = [f'[[file]]\npath = "{path}"\nclock_offset_s = {at_s + shift_s}.0' for path, at_s in rules]
    return ['name = "story"', *tables]


def _rows(
    con: duckdb.DuckDBPyConnection, mart: str, without: frozenset[str], other: str, shift_s: int
) -> Rows:
    columns = [str(row[0]) for row in con.execute(f"describe temp.{mart}").fetchall()]
    kept = [name for name in columns if name not in without]
    where = f"where replica_id is distinct from '{other}'" if other and "replica_id" in columns else ""
    if mart == "settings":
        # Every file states its own, and what it says of its clock.
        kept = ["scope", "name", "value"]
        where = "where is_effective and name not like 'log_stamp%' and name not like '%_clock'"
    shown = ", ".join(f'"{name}"' for name in kept)
    rows = con.execute(f"select distinct {shown} from temp.{mart} {where}").fetchall()
    return sorted((_moved(dict(zip(kept, row, strict=True)), shift_s) for row in rows), key=repr)


def _moved(row: dict[str, object], shift_s: int) -> tuple[object, ...]:
    """Return a row with its instants moved back."""
    return tuple(
        value - shift_s * S
        if column.endswith("_ns") and isinstance(value, int) and value > _INSTANT_NS
        else value
        for column, value in row.items()
    )


def _same(found: Diagnosis, expected: Diagnosis) -> None:
    different = [name for name in expected.marts if found.marts[name] != expected.marts[name]]
    assert different == []
    assert found.verdicts == expected.verdicts


def _halves(part: Part, share: float) -> tuple[Part, Part]:
    cut = round(len(part) * share)
    return part[:cut], part[cut:]


@few
@given(shift_s=st.integers(-400_000_000, 400_000_000))
def test_moving_all_clocks_moves_all_times(shift_s: int) -> None:
    _same(diagnose(replace(story(), shift_s=shift_s)), base())


@few
@given(name=st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=12))
def test_names_of_requests_mean_nothing(name: str) -> None:
    lines = [json.loads(line) for line in story().requests[0]]
    renamed = tuple(json.dumps({**line, "id": f"{name}{number}"}) for number, line in enumerate(lines))
    names = frozenset({"request_id"})
    _same(diagnose(replace(story(), requests=(renamed,)), names), base(names))


@few
@given(share=st.floats(0.1, 0.9))
def test_log_may_be_rotated(share: float) -> None:
    _same(diagnose(replace(story(), logs=_halves(story().logs[0], share))), base())


def test_log_may_be_rotated_at_the_first_preemption() -> None:
    # The step in which the first request vanishes opens the second file.
    first = next(row for row in base().marts["engine_events"] if "preempt" in row and "resume" in row)
    at_s = next(value for value in first if isinstance(value, int) and value > _INSTANT_NS) // S
    log = story().logs[0]
    stamp = f":{at_s % 60:02d} ["
    cut = next(number for number, line in enumerate(log) if stamp in line)
    for place in range(cut, cut + 20, 8):
        _same(diagnose(replace(story(), logs=(log[:place], log[place:]))), base())


@few
@given(share=st.floats(0.1, 0.9))
def test_scraper_may_be_interrupted(share: float) -> None:
    _same(diagnose(replace(story(), scrapes=_halves(story().scrapes[0], share))), base())


@few
@given(share=st.floats(0.2, 0.8))
def test_clients_may_write_several_files(share: float) -> None:
    numbers = frozenset({"request_no"})
    # Both files hold requests of all times: one after the other they would be two levels.
    order = random.Random(7).sample(story().requests[0], len(story().requests[0]))
    _same(diagnose(replace(story(), requests=_halves(order, share)), numbers), base(numbers))


@few
@given(seed=st.integers(0, 1 << 30))
def test_order_of_rows_means_nothing(seed: int) -> None:
    order = random.Random(seed)
    requests = order.sample(story().requests[0], len(story().requests[0]))
    scrapes = [_mixed(block, order) for block in story().scrapes[0]]
    numbers = frozenset({"request_no"})
    mixed = diagnose(replace(story(), requests=(requests,), scrapes=(scrapes,)), numbers)
    _same(mixed, base(numbers))


def _mixed(block: str, order: random.Random) -> str:
    """Return a scrape whose metrics stand in another order, each with its type ahead."""
    head, *lines = block.splitlines(keepends=True)
    metrics = [lines[number : number + 2] for number in range(0, len(lines), 2)]
    return head + "".join(line for metric in order.sample(metrics, len(metrics)) for line in metric)


@few
@given(is_own_file=st.booleans())
def test_replica_that_idles_changes_nothing(is_own_file: bool) -> None:
    idle = [_idle(block) for block in story().scrapes[0]]
    scrapes: tuple[Part, ...] = (*story().scrapes, idle)
    if not is_own_file:
        pairs = zip(story().scrapes[0], idle, strict=True)
        scrapes = ([block + "".join(other.splitlines(keepends=True)[1:]) for block, other in pairs],)
    found = diagnose(replace(story(), scrapes=scrapes), other="1")
    # Whether a log of one engine sums over two cannot be told from its lines.
    compared = {"source_agreement": base().marts["source_agreement"]}
    _same(replace(found, marts=found.marts | compared), base())


def _idle(block: str) -> str:
    """Return a scrape of an engine without a request."""
    head, *lines = block.splitlines(keepends=True)
    samples = [line.split("{")[0] for line in lines if not line.startswith("#")]
    return head + "".join(f'{name}{{engine="1",model_name="m"}} 0.0\n' for name in samples)
