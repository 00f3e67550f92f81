"""What a run folder is taken for: files, levels, replicas, the run id."""

import gzip
import lzma
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from builders_cli import write_run
from kvcliff.errors import UsageProblem
from kvcliff.readers.base import Source
from kvcliff.store.plan import level_number, plan_run


def paths(folder: Path) -> list[str]:
    return [planned.source.relative for planned in plan_run(folder).sources]


def test_run_id_is_name_and_hash_of_content(tmp_path: Path) -> None:
    first = plan_run(write_run(tmp_path / "a"))
    same = plan_run(Path(shutil.copytree(tmp_path / "a", tmp_path / "elsewhere" / "a")))
    assert first.run_id == same.run_id
    assert first.run_id.startswith("a-")
    assert len(first.run_id) == len("a-") + 8


def test_run_id_changes_with_any_byte_and_any_name(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    before = plan_run(folder).run_id
    (folder / "note.txt").write_text("x", encoding="utf-8")
    added = plan_run(folder).run_id
    (folder / "note.txt").rename(folder / "other.txt")
    assert len({before, added, plan_run(folder).run_id}) == 3


def test_an_outside_config_is_part_of_the_run_id(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    config = tmp_path / "outside.toml"
    config.write_text('name = "a"\n', encoding="utf-8")
    assert plan_run(folder, config_path=config).run_id != plan_run(folder).run_id


def test_hidden_files_are_left_alone_and_links_that_lead_out_are_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    (folder / ".hidden").write_text("x", encoding="utf-8")
    secret = tmp_path / "secret.log"
    secret.write_text("x", encoding="utf-8")
    (folder / "link.log").symlink_to(secret)
    (folder / "more").symlink_to(tmp_path)
    (folder / "self").symlink_to(folder)
    planned = {item.source.relative: item for item in plan_run(folder).sources}
    assert sorted(planned) == ["link.log", "metrics.prom", "more"]
    for name in ("link.log", "more"):
        assert planned[name].problem is not None
        assert planned[name].problem.startswith("a link that leads out of the run")
        assert (planned[name].reader, planned[name].sha256) == (None, "")
    assert plan_run(folder / "link.log").sources[0].problem is None, "who names it means it"


def test_a_pipe_and_a_link_in_a_circle_are_named_and_not_opened(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    os.mkfifo(folder / "server.log")
    (folder / "round.log").symlink_to(folder / "round.log")
    problems = {item.source.relative: item.problem for item in plan_run(folder).sources}
    assert problems == {
        "metrics.prom": None,
        "round.log": "cannot read round.log: Too many levels of symbolic links",
        "server.log": "no file (a pipe, a socket or a device)",
    }
    with pytest.raises(UsageProblem, match="is no file and no folder"):
        plan_run(folder / "server.log")


def test_names_that_are_no_utf8_have_a_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path / os.fsdecode(b"run \xff"))
    Path(os.fsdecode(os.fsencode(folder / "a") + b"\xfe.prom")).write_bytes(
        (folder / "metrics.prom").read_bytes()
    )
    plan = plan_run(folder)
    assert plan.name == "run \\xff"
    assert [planned.source.relative for planned in plan.sources] == ["a\\xfe.prom", "metrics.prom"]
    assert [planned.reader is not None for planned in plan.sources] == [True, True]


def test_an_sqlite_file_may_have_any_name(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "x") + b"\xfe?#%.sqlite"))
    with closing(sqlite3.connect(tmp_path / "plain.sqlite")) as db:
        db.execute("create table t (a integer)")
        db.commit()
    path.write_bytes((tmp_path / "plain.sqlite").read_bytes())
    assert Source(path, "x").sqlite_tables == {"t": ("a",)}


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_a_compressed_file_that_breaks_at_once_is_unreadable(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    folder = write_run(tmp_path / "a")
    packed = bytearray(compress((folder / "metrics.prom").read_bytes()))
    packed[30:60] = bytes(30)
    (folder / "broken.prom").write_bytes(packed)
    (planned, _) = plan_run(folder).sources
    assert planned.reader is None
    assert planned.problem is not None
    assert planned.problem.startswith("compressed data ends or breaks early")


def test_names_of_runs_levels_and_replicas_are_one_printable_line(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    for level in ("c8\n\x1b[31m", "c16\u202e"):
        write_run(folder / level)
    (folder / "run.toml").write_text(
        'name = "x\\ny\\u001b"\n[[file]]\npath = "*"\nreplica = "r\\n"\n', encoding="utf-8"
    )
    plan = plan_run(folder)
    assert plan.name == "x\ufffdy\ufffd"
    assert {planned.level for planned in plan.usable} == {"c8\ufffd\ufffd[31m", "c16\ufffd"}
    assert {planned.replica for planned in plan.usable} == {"r\ufffd"}


def test_a_configuration_that_is_a_link_out_of_the_run_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    (tmp_path / "other.toml").write_text('name = "b"\n', encoding="utf-8")
    (folder / "run.toml").symlink_to(tmp_path / "other.toml")
    with pytest.raises(UsageProblem, match="leads out of the run"):
        plan_run(folder)
    assert plan_run(folder, config_path=tmp_path / "other.toml").name == "b"


def test_links_out_of_an_export_folder_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "run_pqtdir"
    folder.mkdir(parents=True)
    secret = tmp_path / "secret.parquet"
    secret.write_text("x", encoding="utf-8")
    (folder / "NVTX_EVENTS.parquet").symlink_to(secret)
    (folder / "StringIds.parquet").write_text("y", encoding="utf-8")
    (folder / "deeper").mkdir()
    assert Source(folder, "run_pqtdir", is_dir=True).listing == ("StringIds.parquet",)


@pytest.mark.parametrize("stated", ["/dev/zero", "/dev/null", "."])
def test_a_model_file_that_is_no_file_is_refused(tmp_path: Path, stated: str) -> None:
    folder = write_run(tmp_path / "a")
    (folder / "run.toml").write_text(f'[model]\nconfig = "{stated}"\n', encoding="utf-8")
    with pytest.raises(UsageProblem, match=r"'model\.config' cannot be opened"):
        plan_run(folder)


def test_sub_folders_with_serving_data_are_levels(tmp_path: Path) -> None:
    for level in ("c8", "c16"):
        write_run(tmp_path / "sweep" / level)
    plan = plan_run(tmp_path / "sweep")
    assert {planned.level for planned in plan.sources} == {"c8", "c16"}
    assert {planned.level_number for planned in plan.sources} == {8.0, 16.0}


def test_one_sub_folder_beside_serving_files_is_no_level(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    write_run(folder / "more")
    assert {planned.level for planned in plan_run(folder).sources} == {None}


def test_run_toml_decides_levels_and_what_is_ignored(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    (folder / "scratch.txt").write_text("x", encoding="utf-8")
    (folder / "run.toml").write_text(
        'name = "named"\n[[file]]\npath = "*.prom"\nlevel = 32\nreplica = "blue"\n'
        '[[file]]\npath = "scratch.txt"\nignore = true\n',
        encoding="utf-8",
    )
    plan = plan_run(folder)
    assert plan.name == "named"
    assert "scratch.txt" not in [planned.source.relative for planned in plan.sources]
    scrapes = next(planned for planned in plan.sources if planned.source.relative.endswith(".prom"))
    assert (scrapes.level, scrapes.level_number, scrapes.replica) == ("32", 32.0, "blue")


def test_a_single_file_is_a_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    file = next(path for path in sorted(folder.iterdir()) if path.suffix == ".prom")
    plan = plan_run(file)
    assert (plan.name, len(plan.sources)) == (file.stem, 1)


def test_a_path_that_does_not_exist_is_a_usage_problem(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no run at"):
        plan_run(tmp_path / "gone")


@pytest.mark.parametrize(
    ("level", "number"), [("c16", 16.0), ("8", 8.0), ("qps2-c4", 4.0), ("warm", None), (None, None)]
)
def test_level_number_is_the_last_number_of_the_label(level: str | None, number: float | None) -> None:
    assert level_number(level) == number


def test_stage_in_a_file_name_is_a_level_unless_run_toml_says_otherwise(tmp_path: Path) -> None:
    report = '{"load_summary": {"schedule_delay": {}}, "successes": {"latency": {}}}'
    for name in (
        "stage_0_lifecycle_metrics.json",
        "stage_10_lifecycle_metrics.json",
        "summary_lifecycle_metrics.json",
    ):
        (tmp_path / name).write_text(report)
    levels = [(planned.level, planned.level_number) for planned in plan_run(tmp_path).sources]
    assert levels == [("stage_0", 0.0), ("stage_10", 10.0), (None, None)]
    (tmp_path / "run.toml").write_text('[[file]]\npath = "stage_0*"\nlevel = "c8"\n')
    assert plan_run(tmp_path).sources[1].level == "c8"


STAGE = '{"load_summary": {"schedule_delay": {}}, "successes": {"latency": {}}}'


def levels_of(root: Path, files: dict[str, str]) -> dict[str, str | None]:
    """Return the level of each file of a run with this content."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return {planned.source.relative: planned.level for planned in plan_run(root).sources}


def test_the_same_stage_in_two_folders_is_a_level_of_two_sweeps(tmp_path: Path) -> None:
    names = [f"{folder}/stage_{stage}_lifecycle_metrics.json" for folder in ("a", "b") for stage in (0, 1)]
    levels = levels_of(tmp_path, dict.fromkeys(names, STAGE))
    assert list(levels.values()) == ["a/stage_0", "a/stage_1", "b/stage_0", "b/stage_1"]
    (tmp_path / "run.toml").write_text('[[file]]\npath = "b/*"\nreplica = "second"\n')
    levels = {planned.source.relative: planned.level for planned in plan_run(tmp_path).sources}
    assert [levels[name] for name in names] == ["stage_0", "stage_1"] * 2


def test_stages_beside_the_scrapes_of_each_configuration_stay_apart(tmp_path: Path) -> None:
    scrape = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
    files = {f"{folder}/metrics.prom": scrape for folder in ("bf16", "fp8")}
    for stage in (0, 1):
        files |= {f"{folder}/stage_{stage}_lifecycle_metrics.json": STAGE for folder in ("bf16", "fp8")}
    levels = levels_of(tmp_path, files)
    assert {level for name, level in levels.items() if name.startswith("fp8")} == {
        "fp8", "fp8/stage_0", "fp8/stage_1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("bf16/m_conc8.prom", "bf16/m_conc16.prom", "fp8/m_conc8.prom", "fp8/m_conc16.prom"),
            {"bf16/c8", "bf16/c16", "fp8/c8", "fp8/c16"},
        ),
        (("a/conc8/m.prom", "a/conc16/m.prom", "b/conc8/m.prom", "b/conc16/m.prom"),
         {"a/c8", "a/c16", "b/c8", "b/c16"}),
        (("a/m_conc8.prom", "a/m_conc16.prom", "b/m.prom"), {"a", "b"}),
        (("c8/r0/m.prom", "c8/r1/m.prom", "c16/r0/m.prom", "c16/r1/m.prom"), {"c8", "c16"}),
    ],
)  # fmt: skip
def test_folders_that_each_hold_a_sweep_are_sweeps(
    tmp_path: Path, names: tuple[str, ...], expected: set[str]
) -> None:
    scrape = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
    assert set(levels_of(tmp_path, dict.fromkeys(names, scrape)).values()) == expected
