"""Phases of kernels and steps: label first, then graph, then name, and never a sure wrong answer."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest
from tests.builders_nsys import (
    FA2_DECODE,
    FA2_OTHER,
    FA3_DECODE,
    FA3_WIDE,
    FI_DECODE,
    FI_MERGE,
    FI_PREFILL,
    GEMM,
    KV_WRITE,
    SOFTMAX,
    TRACE_MARTS,
    NsysFile,
    raw_tables,
    trace_marts,
)
from tests.builders_raw import has_documented_columns, is_unique, needed

from kvcliff.store.models import build_models

SHARED = Path(__file__).resolve().parents[3] / "shared"
GENERATOR = SHARED / "tools" / "make_nsys_sqlite.py"
NAMES = SHARED / "corpus" / "kernel_names" / "kernel_names.csv"
needs_generator = pytest.mark.skipif(not GENERATOR.is_file(), reason="the generator of traces is not there")
NS = 1_000_000


def step(file: NsysFile, label: str, at: int, *kernels: str, **more: int) -> None:
    """Add a step range of 1 ms with kernels 20 us apart, launched inside it."""
    file.range(label, at, at + NS, **more)
    for number, name in enumerate(kernels):
        start = at + 1000 + 20_000 * number
        file.kernel(name, start, start + 10_000, gridX=1 if name == FA2_DECODE else 9, **more)


def phases(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    return con.execute("select phase, evidence from kernel_phases order by start_ns").fetchall()


def marts_of(tmp_path: Path, file: NsysFile) -> duckdb.DuckDBPyConnection:
    return trace_marts(file.write(tmp_path / "run.sqlite"))


# ------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("label", "phase"),
    [
        ("execute_context_2(700)_generation_0(0)", "prefill"),
        ("execute_context_0(0)_generation_8(8)", "decode"),
        ("execute_context_1(300)_generation_8(8)", "mixed"),
        ("execute_context_0(0)_generation_0(0)", "other"),
        ("execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk900sqsq8sqsk900)", "decode"),
        ("execute_9_context_1(sq60sk60sqsq3600sqsk3600)_generation_8(sq8sk900sqsq8sqsk900)", "mixed"),
        ("step context=1(99) generation=0(0)", "prefill"),
        ("[Executor] _forward_step 7: 0 ctx reqs, 3 gen reqs", "decode"),
        ("[Executor] _forward_step 7: 2 ctx reqs, 90 ctx tokens, 3 gen reqs", "mixed"),
        ("step[EXTEND bs=4 toks=8192]", "prefill"),
        ("step[DECODE bs=32]", "decode"),
        ("step[MIXED bs=32]", "mixed"),
        ("execute_new_3_cached_0", "prefill"),
    ],
)
def test_a_step_label_decides(tmp_path: Path, label: str, phase: str) -> None:
    file = NsysFile()
    step(file, label, NS, GEMM)
    assert phases(marts_of(tmp_path, file)) == [(phase, "step_label")]


@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_a_stage_range_decides_with_less_confidence(tmp_path: Path, name: str) -> None:
    file = NsysFile()
    step(file, name, NS, GEMM)
    con = marts_of(tmp_path, file)
    assert phases(con) == [(name, "stage_label")]
    assert con.execute("select confidence from kernel_phases").fetchone() == (0.9,)


def test_the_launch_decides_not_the_time_of_the_kernel(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("execute_context_0(0)_generation_8(8)", 0, 100)
    file.range("execute_context_1(90)_generation_0(0)", 200, 300)
    late = file.launch(50)
    file.kernel(GEMM, 220, 290, correlationId=late)
    assert phases(marts_of(tmp_path, file)) == [("decode", "step_label")]


def test_the_same_correlation_id_of_another_process_is_not_mixed_up(tmp_path: Path) -> None:
    file = NsysFile()
    for pid, label in (
        (500, "execute_context_0(0)_generation_8(8)"),
        (501, "execute_context_1(90)_generation_0(0)"),
    ):
        file.range(label, 0, 100, pid=pid)
        file.correlation = 40
        file.kernel(GEMM, 60, 70, pid=pid, deviceId=pid - 500)
    con = marts_of(tmp_path, file)
    rows = con.execute("select device_id, phase from kernel_phases order by device_id").fetchall()
    assert rows == [(0, "decode"), (1, "prefill")]


def test_a_launch_of_another_thread_or_after_the_range_is_outside(tmp_path: Path) -> None:
    file = NsysFile()
    file.range("execute_context_0(0)_generation_8(8)", 0, 100)
    file.kernel(GEMM, 60, 70, thread=2)
    file.kernel(GEMM, 130, 140)
    assert phases(marts_of(tmp_path, file)) == [("other", "none"), ("other", "none")]


def test_attention_launched_apart_in_a_mixed_step_has_its_own_phase(tmp_path: Path) -> None:
    file = NsysFile()
    step(
        file,
        "execute_context_1(300)_generation_8(8)",
        NS,
        GEMM,
        FI_DECODE,
        FI_MERGE,
        FI_PREFILL,
        FI_MERGE,
        GEMM,
    )
    assert phases(marts_of(tmp_path, file)) == [
        ("mixed", "step_label"),
        ("decode", "label_and_name"),
        ("decode", "label_and_name"),
        ("prefill", "label_and_name"),
        ("prefill", "label_and_name"),
        ("mixed", "step_label"),
    ]


def test_one_attention_launch_for_a_mixed_batch_is_mixed(tmp_path: Path) -> None:
    file = NsysFile()
    step(file, "execute_context_1(300)_generation_8(8)", NS, GEMM, FA2_OTHER)
    assert phases(marts_of(tmp_path, file)) == [("mixed", "step_label")] * 2


@pytest.mark.parametrize(
    ("label", "phase", "evidence", "recomputed"),
    [
        ("execute_context_0(0)_generation_1(300)", "prefill", "step_label", 300),
        ("execute_context_1(90)_generation_1(300)", "prefill", "step_label", 300),
        ("execute_context_0(0)_generation_4(303)", "mixed", "recompute_label", 300),
        ("execute_context_0(0)_generation_4(4)", "decode", "step_label", 0),
    ],
)
def test_more_generation_tokens_than_requests_are_a_recompute(
    tmp_path: Path, label: str, phase: str, evidence: str, recomputed: int
) -> None:
    file = NsysFile()
    for number in range(3):
        step(file, "execute_context_0(0)_generation_4(4)", NS * (number + 1), GEMM)
    step(file, label, NS * 5, GEMM)
    con = marts_of(tmp_path, file)
    row = con.execute(
        "select phase, evidence, recomputed_tokens from steps order by step_id desc limit 1"
    ).fetchone()
    assert row == (phase, evidence, recomputed)


def test_verified_drafts_are_no_recompute(tmp_path: Path) -> None:
    file = NsysFile()
    for number in range(4):
        step(file, "execute_context_0(0)_generation_4(16)", NS * (number + 1), GEMM)
    step(file, "execute_context_0(0)_generation_4(500)", NS * 6, GEMM)
    con = marts_of(tmp_path, file)
    rows = con.execute("select phase, recomputed_tokens from steps order by step_id").fetchall()
    assert rows == [("decode", 0)] * 4 + [("mixed", 476)]


# ------------------------------------------------------------------------------------------- without labels


def unlabelled_step(file: NsysFile, at: int, *kernels: tuple[str, dict[str, int]]) -> None:
    """Add kernels 20 us apart and the sampling that ends a step."""
    for number, (name, more) in enumerate((*kernels, (SOFTMAX, {}))):
        start = at + 20_000 * number
        file.kernel(name, start, start + 10_000, **more)


def test_a_step_whose_attention_only_decodes_is_decode(tmp_path: Path) -> None:
    file = NsysFile()
    unlabelled_step(file, NS, (GEMM, {}), (FA2_DECODE, {"gridX": 1}), (GEMM, {}))
    con = marts_of(tmp_path, file)
    assert phases(con) == [
        ("decode", "inferred_step"),
        ("decode", "kernel_name"),
        ("decode", "inferred_step"),
        ("decode", "inferred_step"),
    ]
    assert con.execute("select phase, evidence, label_kind from steps").fetchall() == [
        ("decode", "inferred_step", None)
    ]


def test_attention_over_many_tokens_is_prefill_or_mixed(tmp_path: Path) -> None:
    """A causal launch over several query blocks serves prompts; who decodes beside them is hidden."""
    file = NsysFile()
    unlabelled_step(file, NS, (GEMM, {}), (FA2_OTHER, {"gridX": 9}))
    con = marts_of(tmp_path, file)
    assert set(phases(con)) == {("prefill_or_mixed", "long_query")}
    assert con.execute("select phase, confidence from steps").fetchall() == [("prefill_or_mixed", 0.85)]


@pytest.mark.parametrize(("name", "grid"), [(FA2_OTHER, 1), (FA2_DECODE, 3), (FI_PREFILL, 9)])
def test_attention_that_both_phases_use_leaves_the_step_open(tmp_path: Path, name: str, grid: int) -> None:
    file = NsysFile()
    unlabelled_step(file, NS, (GEMM, {}), (name, {"gridX": grid}))
    con = marts_of(tmp_path, file)
    assert set(phases(con)) == {("other", "none")}
    assert con.execute("select max(confidence) from kernel_phases").fetchone() == (0,)


def test_wide_tiles_are_sure_only_where_decode_is_known(tmp_path: Path) -> None:
    """Checks of drafted tokens fill wide tiles too: they show no other decode attention."""
    file = NsysFile()
    unlabelled_step(file, NS, (GEMM, {}), (FA3_WIDE, {}))
    assert set(phases(marts_of(tmp_path, file))) == {("prefill_or_mixed", "likely_long_query")}
    unlabelled_step(file, 2 * NS, (GEMM, {}), (FA3_DECODE, {}))
    con = marts_of(tmp_path, file)
    rows = con.execute("select phase, evidence, confidence >= 0.8 from steps order by start_ns").fetchall()
    assert rows == [("prefill_or_mixed", "long_query", True), ("decode", "inferred_step", True)]


def test_attention_outside_the_decode_graphs_is_likely_no_decode(tmp_path: Path) -> None:
    file = NsysFile()
    file.graph(NS, NS + 5000)
    unlabelled_step(file, NS + 10_000)
    unlabelled_step(file, 2 * NS, (GEMM, {}), (FI_PREFILL, {}))
    con = marts_of(tmp_path, file)
    rows = con.execute("select phase, evidence from steps order by start_ns").fetchall()
    assert rows == [("decode", "graph_launch"), ("prefill_or_mixed", "likely_long_query")]


def test_one_opaque_graph_a_step_without_any_other_attention_is_not_acted_upon(tmp_path: Path) -> None:
    file = NsysFile()
    for number in range(3):
        file.graph(NS * (number + 1), NS * (number + 1) + 5000)
        unlabelled_step(file, NS * (number + 1) + 10_000)
    con = marts_of(tmp_path, file)
    rows = con.execute("select distinct phase, evidence, confidence < 0.8 from steps").fetchall()
    assert rows == [("decode", "graph_alone", True)]


def test_attention_launched_apart_without_labels(tmp_path: Path) -> None:
    file = NsysFile()
    layer = ((KV_WRITE, {}), (FI_DECODE, {}), (FI_MERGE, {}), (FI_PREFILL, {}), (FI_MERGE, {}))
    unlabelled_step(file, NS, *layer, *layer)
    unlabelled_step(file, 2 * NS, (KV_WRITE, {}), (FI_PREFILL, {}))
    con = marts_of(tmp_path, file)
    rows = con.execute("select phase from kernel_phases where confidence >= 0.8 order by start_ns").fetchall()
    apart = ["mixed", "decode", "decode", "prefill", "prefill"]
    assert [row[0] for row in rows] == [*apart, *apart, "mixed", "prefill", "prefill", "prefill"]


def test_a_draft_model_beside_the_check_of_its_tokens_is_not_acted_upon(tmp_path: Path) -> None:
    file = NsysFile()
    check = ((KV_WRITE, {}), (FI_PREFILL, {}))
    unlabelled_step(file, NS, *check, *check, *check, (KV_WRITE, {}), (FI_DECODE, {}))
    con = marts_of(tmp_path, file)
    assert con.execute("select evidence from steps").fetchall() == [("mixed_evidence",)]
    rows = con.execute("select distinct phase from kernel_phases where confidence >= 0.8").fetchall()
    assert rows == [("decode",)]


def cycled_steps(file: NsysFile, kinds: str, layers: int) -> None:
    """Add steps without sampling kernels: 2 us between kernels, 40 us between steps."""
    at = NS
    for kind in kinds:
        attention = {
            "d": ((FI_DECODE, 1),),
            "p": ((FI_PREFILL, 9),),
            "m": ((FI_DECODE, 1), (FI_PREFILL, 9)),
        }[kind]
        for name, grid in ((GEMM, 1), *((KV_WRITE, 1), *attention, (GEMM, 1)) * layers, (GEMM, 1)):
            file.kernel(name, at, at + 8000, gridX=grid)
            at += 10_000
        at += 40_000


def test_the_cycle_of_layers_bounds_steps_without_sampling(tmp_path: Path) -> None:
    """Two decode steps in a row look alike: only the number of layers tells them apart."""
    file = NsysFile()
    cycled_steps(file, "dddmpdddpmdd", 3)
    con = marts_of(tmp_path, file)
    rows = con.execute("select phase, kernel_count from steps order by start_ns").fetchall()
    expected = {"d": ("decode", 11), "m": ("mixed", 14), "p": ("prefill", 11)}
    assert rows == [expected[kind] for kind in "dddmpdddpmdd"]
    edges = con.execute(
        "select evidence, count(*), max(confidence) < 0.8 from kernel_phases"
        " where evidence = 'layer_cycle' group by evidence"
    ).fetchall()
    assert edges == [("layer_cycle", 4 * 12, True)]


def test_without_sampling_and_cycle_nothing_is_acted_upon(tmp_path: Path) -> None:
    """Two layers of decode and three of prefill have no cycle: they stay one step, and its kind is open."""
    file = NsysFile()
    cycled_steps(file, "d", 2)
    cycled_steps(file, "p", 3)
    con = marts_of(tmp_path, file)
    rows = con.execute("select distinct phase from kernel_phases where confidence >= 0.8").fetchall()
    assert rows == [("decode",)]
    assert con.execute("select evidence from steps").fetchall() == [("mixed_evidence",)]


def test_a_graph_with_the_whole_step_is_decode(tmp_path: Path) -> None:
    file = NsysFile()
    for number in range(3):
        at = NS * (number + 1)
        launch = file.graph_launch(at)
        node = {"correlationId": launch, "graphNodeId": 5}
        unlabelled_step(file, at + 100, (GEMM, node), (FI_PREFILL, node), (GEMM, node))
    con = marts_of(tmp_path, file)
    rows = con.execute(
        "select phase, evidence, count(*) from kernel_phases group by all order by 3"
    ).fetchall()
    assert rows == [("decode", "inferred_step", 3), ("decode", "graph_launch", 9)]
    assert con.execute("select count(*) from steps where phase = 'decode'").fetchone() == (3,)


def test_piecewise_graphs_prove_nothing(tmp_path: Path) -> None:
    file = NsysFile()
    node = {"correlationId": file.graph_launch(NS), "graphNodeId": 5}
    unlabelled_step(file, NS + 100, (GEMM, node), (FI_PREFILL, {}), (GEMM, node), (FI_PREFILL, {}))
    assert set(phases(marts_of(tmp_path, file))) == {("other", "none")}


def test_an_opaque_graph_beside_eager_attention_proves_nothing(tmp_path: Path) -> None:
    file = NsysFile()
    file.graph(NS, NS + 5000)
    unlabelled_step(file, NS + 10_000, (FI_PREFILL, {}))
    file.graph(2 * NS, 2 * NS + 5000)
    unlabelled_step(file, 2 * NS + 10_000)
    con = marts_of(tmp_path, file)
    rows = con.execute("select phase, graph_count from phase_totals order by phase").fetchall()
    assert rows == [("decode", 1), ("other", 1)]


def test_labels_that_name_no_phase_still_bound_the_step(tmp_path: Path) -> None:
    file = NsysFile()
    step(file, "execute_new_0_cached_4", NS, GEMM, FA2_DECODE, SOFTMAX)
    step(file, "execute_new_0_cached_4", 3 * NS, GEMM, FA2_OTHER, SOFTMAX)
    con = marts_of(tmp_path, file)
    rows = con.execute("select step_id, phase, evidence, label_kind from steps order by step_id").fetchall()
    assert rows == [
        (1, "decode", "inferred_step", "vllm_new_cached"),
        (2, "prefill_or_mixed", "long_query", "vllm_new_cached"),
    ]
    assert {row[0] for row in con.execute("select step_id from kernel_phases").fetchall()} == {1, 2}


# ------------------------------------------------------------------------------------------- names


@pytest.mark.skipif(not NAMES.is_file(), reason="the list of kernel names is not there")
def test_every_listed_kernel_name_gets_its_family_and_phase() -> None:
    with NAMES.open() as file:
        rows = list(csv.DictReader(file))
    con = raw_tables()
    names = pl.DataFrame(
        {"source_id": 1, "kernel_id": range(len(rows)), "name": [row["name"] for row in rows]}
    )
    con.register("names", names)
    con.execute("insert into temp.raw_kernel_names by name select * from names")
    build_models(con, needed("int_kernels_named", frozenset()))
    con.register(
        "given", pl.DataFrame({"name_id": range(len(rows)), "grid_x": [int(row["grid_x"]) for row in rows]})
    )
    ours = con.execute(
        """
        select
            case when given.grid_x > named.max_grid_x then named.wide_family else named.family end,
            case when given.grid_x <= coalesce(named.max_grid_x, given.grid_x) then named.phase end
        from int_kernels_named as named inner join given on named.name_id = given.name_id
        order by named.name_id
        """
    ).fetchall()
    assert ours == [(row["family"], row["phase"] or None) for row in rows]


def test_equal_names_of_two_files_share_an_id(tmp_path: Path) -> None:
    paths = []
    for number, names in enumerate(((GEMM, SOFTMAX), (SOFTMAX, GEMM))):
        file = NsysFile()
        for at, name in enumerate(names):
            file.kernel(name, 1000 * at + 100, 1000 * at + 200)
        paths.append(file.write(tmp_path / f"{number}.sqlite"))
    con = trace_marts(*paths, levels=["1", "2"])
    sql = "select level, name, family from kernel_phases join kernel_names using (kernel_id, family)"
    rows = con.execute(f"{sql} order by 1, 2").fetchall()
    assert rows == [
        (level, name, family) for level in "12" for name, family in ((GEMM, "gemm"), (SOFTMAX, "sampling"))
    ]


# ------------------------------------------------------------------------------------------- generated traces


def generate(folder: Path, *arguments: str) -> Path:
    path = folder / "run.sqlite"
    common = ["--rate", "0.4", "--prompt", "300", "--output", "150", "--kv-tokens", "9000"]
    command = [sys.executable, str(GENERATOR), str(path), "--kernels-per-step", "40", *common, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def scored(path: Path) -> pl.DataFrame:
    """Return truth and answer of every kernel."""
    truth = json.loads(Path(f"{path}.truth.json").read_text())
    con = trace_marts(path, offset_ns=truth["session_start_utc_ns"])
    for name in TRACE_MARTS:
        has_documented_columns(con, name)
        assert is_unique(con, name)
    con.register("truth", pl.read_parquet(f"{path}.kernels.truth.parquet"))
    rows = con.execute(
        """
        select truth.phase, answers.phase, answers.confidence, answers.evidence
        from truth
        inner join raw_kernels as raw
            on truth.device_id = raw.device_id and truth.start_ns = raw.start_src_ns
            and truth.correlation_id = raw.correlation_id
        inner join kernel_phases as answers on raw.kernel_no = answers.kernel_no
        """
    ).fetchall()
    frame = pl.DataFrame(rows, schema=["truth", "phase", "confidence", "evidence"], orient="row")
    assert frame.height == con.execute("select count(*) from truth").fetchone()[0]
    return frame


CASES = [
    ("2024.2", "node", "fa2", "1"),
    ("2026.2", "node", "flashinfer", "2"),
    ("2026.2", "graph", "fa3", "1"),
    ("2024.2", "graph", "flashinfer", "2"),
    ("2026.2", "off", "fa2", "2"),
    ("2024.2", "off", "fa3", "1"),
]


@needs_generator
@pytest.mark.parametrize(("schema", "graph", "attention", "gpus"), CASES)
def test_with_labels_every_kernel_gets_its_true_phase(
    tmp_path: Path, schema: str, graph: str, attention: str, gpus: str
) -> None:
    options = ("--schema", schema, "--graph", graph, "--attention", attention, "--gpus", gpus)
    frame = scored(generate(tmp_path, "--steps", "160", *options))
    assert frame.filter(pl.col("truth") != pl.col("phase")).height == 0
    assert frame["confidence"].min() >= 0.8


@needs_generator
@pytest.mark.parametrize(("schema", "graph", "attention", "gpus"), CASES)
def test_without_labels_decode_is_told_from_the_rest(
    tmp_path: Path, schema: str, graph: str, attention: str, gpus: str
) -> None:
    options = ("--schema", schema, "--graph", graph, "--attention", attention, "--gpus", gpus)
    frame = scored(generate(tmp_path, "--steps", "160", "--no-nvtx", *options))
    is_union = (pl.col("phase") == "prefill_or_mixed") & pl.col("truth").is_in(["prefill", "mixed"])
    assert frame.filter((pl.col("phase") != pl.col("truth")) & ~is_union).height == 0
    assert frame["confidence"].min() >= 0.8
    assert frame.filter(is_union).is_empty() == (attention == "flashinfer")
