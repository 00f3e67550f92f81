"""A bundle keeps numbers and loses text: canaries in every place that a run takes text from."""

import io
import json
import zipfile

import polars as pl
import pytest

from builders_marts import START, S, add_rows, empty_marts, kv_row
from builders_report import stored_story, swap_story
from kvcliff.report.bundle import SCHEMA, build_bundle
from kvcliff.report.bundle_columns import treatment_of
from kvcliff.store.models import load_models

RUN_ID = "night_load-12345678"
#: No word of ours: wherever it turns up, text of the run leaked.
CANARY = "zebrafinch"


def _canary_run():
    con = swap_story(name=f"{CANARY}-night", labels=f"owner={CANARY}")
    path = f"rack-7/{CANARY}.corp/server_{CANARY}.log"
    con.execute(
        "update sources set path = ?, notes = ?, reason = ?, first_skip_reason = ? where source_id = 3",
        [path, f"said {CANARY}", CANARY, f"line: {CANARY} said hello"],
    )
    con.execute("update settings set origin = ?", [path])
    con.execute(
        "update clocks set note = ? where source_id = 3", [f"tied to {path}; its clock was 2 s ahead of it"]
    )
    con.execute("update clocks set note = ? where source_id = 2", [f"stated by {CANARY}-night"])
    con.execute("update capacity_ledger set origin = ?", [path])
    con.execute("update requests set request_id = ?, tag = ?", [f"user {CANARY}", CANARY])
    for name, value in (
        ("model_name", f"/models/{CANARY}"),
        ("served_by", f"{CANARY}.corp"),
        ("dtype", "bfloat16"),
    ):
        add_rows(
            con,
            "settings",
            {"scope": f"replica={CANARY}", "name": name, "value": value, "is_effective": True},
        )
    for mart in ("kv_occupancy", "token_latency", "swap_points", "victims", "requests"):
        con.execute(f"update {mart} set level = ?, replica_id = ?", [f"{CANARY}/c16", f"{CANARY}.corp:8000"])
    con.execute(
        "create temp table kernel_names (kernel_id integer, name varchar, short_name varchar, family varchar)"
    )
    add_rows(
        con,
        "kernel_names",
        {
            "kernel_id": 1,
            "name": f"void flash::fwd<{CANARY}>()",
            "short_name": "flash_fwd",
            "family": "attention",
        },
        {"kernel_id": 2, "name": f"{CANARY}_k", "short_name": f"{CANARY}_k", "family": "other"},
    )
    return stored_story(RUN_ID, con)


@pytest.fixture(scope="module")
def bundle():
    return build_bundle(_canary_run(), RUN_ID)


@pytest.fixture(scope="module")
def files(bundle):
    with zipfile.ZipFile(io.BytesIO(bundle.data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def _table(files, name):
    return pl.read_parquet(io.BytesIO(files[f"marts/{name}.parquet"]))


def test_no_canary_gets_out(files):
    for name, data in files.items():
        assert CANARY.encode() not in data, name
        if name.endswith(".parquet"):
            frame = pl.read_parquet(io.BytesIO(data))
            texts = frame.select(pl.col(pl.String)).to_dicts()
            assert CANARY not in str(texts), name
            assert CANARY.encode() not in frame.write_csv().encode(), name


def test_the_canaries_were_there():
    con = _canary_run()
    held = "".join(
        str(con.execute(f"select * from {mart}").fetchall()) for mart in ("sources", "settings", "requests")
    )
    assert held.count(CANARY) > 400


def test_numbers_and_closed_words_stay(files):
    (point,) = _table(files, "swap_points").filter(pl.col("swap_point_id") == 1).to_dicts()
    assert (point["class"], point["at_ns"], point["longest_gap_ms"]) == ("confirmed", START + 60 * S, 6210.0)
    assert point["evidence"] == "pressure,flip,counter,stall"
    assert _table(files, "requests").height == 400
    assert set(_table(files, "requests")["request_id"]) == {None}


def test_names_become_roles_and_numbers(files):
    sources = _table(files, "sources").sort("source_id")
    assert sources["path"].to_list() == ["client-1", "metrics-2", "log-3"]
    assert set(_table(files, "kv_occupancy")["level"]) == {"16"}
    assert set(_table(files, "kv_occupancy")["replica_id"]) == {"replica-2"}
    settings = dict(_table(files, "settings").select("name", "value").iter_rows())
    assert settings == {
        "max_num_seqs": "64",
        "kv_cache_dtype": "auto",
        "model_name": None,
        "served_by": None,
        "dtype": "bfloat16",
    }
    notes = dict(_table(files, "clocks").select("source_id", "note").iter_rows())
    assert notes == {1: None, 2: None, 3: "tied to log-3; its clock was 2 s ahead of it"}


def test_kernels_of_a_known_family_keep_their_short_name(files):
    rows = _table(files, "kernel_names").sort("kernel_id").select("name", "short_name", "family").rows()
    assert rows == [(None, "flash_fwd", "attention"), ("kernel-1", "kernel-1", "other")]


def test_the_report_is_inside_and_says_the_same(files):
    report = json.loads(files["report.json"])
    assert report["run_id"] == "run-12345678"
    assert report["verdict"]["finding"] == "hit_but_slow"
    assert {"report.md", "report.html", "README.txt", "manifest.json"} <= set(files)


def test_the_manifest_names_what_was_emptied(files):
    manifest = json.loads(files["manifest.json"])
    assert manifest["schema"] == SCHEMA
    tables = {table["name"]: table for table in manifest["tables"]}
    assert {"request_id", "tag"} <= set(tables["requests"]["emptied_columns"])
    assert tables["runs"]["emptied_columns"] == ["name", "ingested_at_ns"]
    assert tables["requests"]["row_count"] == 400


def test_same_run_same_bytes(bundle):
    assert build_bundle(_canary_run(), RUN_ID).data == bundle.data


def test_the_store_is_left_as_it_was():
    con = stored_story(RUN_ID)
    build_bundle(con, RUN_ID)
    assert con.execute("select name from memory.main.runs").fetchall() == [("night_load",)]


@pytest.mark.parametrize("column", ["request_id", "tag", "nvtx_path", "model", "notes", "first_skip_reason"])
def test_free_text_has_no_treatment_anywhere(column):
    for table in [model.name for model in load_models()] + ["runs", "sources", "clocks"]:
        assert treatment_of(table, column) is None


def test_a_new_text_column_does_not_leave_by_itself():
    con = empty_marts()
    add_rows(con, "runs", {"name": "night", "status": "ok", "file_count": 1})
    con.execute("alter table kv_occupancy add column remark varchar").fetchall()
    con.execute("alter table kv_occupancy add column tokens_seen bigint[]").fetchall()
    add_rows(con, "kv_occupancy", {**kv_row(0, 0.5), "remark": CANARY, "tokens_seen": [7]})
    data = build_bundle(stored_story(RUN_ID, con), RUN_ID).data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        (row,) = pl.read_parquet(io.BytesIO(archive.read("marts/kv_occupancy.parquet"))).to_dicts()
    assert (row["remark"], row["tokens_seen"], row["used_ratio"]) == (None, None, 0.5)


def test_a_bundle_still_says_that_a_run_is_synthetic():
    con = stored_story(RUN_ID, swap_story(labels="kind=synthetic, owner=me"))
    with zipfile.ZipFile(io.BytesIO(build_bundle(con, RUN_ID).data)) as archive:
        report = json.loads(archive.read("report.json"))
    assert report["run"]["labels"] == "synthetic=true"
    assert report["notices"][0].startswith("Synthetic run")
