"""What a run folder is taken for: files, levels, replicas, the run id."""

import shutil
from pathlib import Path

import pytest

from builders_cli import write_run
from kvcliff.errors import UsageProblem
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


def test_hidden_files_and_links_that_lead_out_are_left_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    (folder / ".hidden").write_text("x", encoding="utf-8")
    secret = tmp_path / "secret.log"
    secret.write_text("x", encoding="utf-8")
    (folder / "link.log").symlink_to(secret)
    assert ".hidden" not in paths(folder)
    assert "link.log" not in paths(folder)


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
