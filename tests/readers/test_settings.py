import tomllib
from pathlib import Path

import pytest

from builders_metrics import read, source_of
from kvcliff.readers.client_kvcliff import READER
from kvcliff.readers.device_columns import DCGMI_COLUMNS, DMON_COLUMNS, QUERY_COLUMNS
from kvcliff.readers.metric_families import DCGM_COUNTERS
from kvcliff.readers.run_config import FILE_KEYS, RUN_KEYS, load_run_config
from kvcliff.readers.settings import SETTING_NAMES, Setting, settings_frame, without_folders

README = (Path(__file__).parents[2] / "pipeline" / "kvcliff" / "readers" / "README.md").read_text()


def test_names_are_unique_and_documented_with_unit_and_group() -> None:
    names = [setting.name for setting in SETTING_NAMES]
    assert len(names) == len(set(names))
    for setting in SETTING_NAMES:
        assert f"| {setting.group} | `{setting.name}` | {setting.unit or ''} | {setting.meaning} |" in README


def test_device_counters_are_documented() -> None:
    counters = {column.counter for column in (*QUERY_COLUMNS, *DMON_COLUMNS, *DCGMI_COLUMNS, *DCGM_COUNTERS)}
    assert [counter for counter in sorted(counters) if f"| `{counter}` |" not in README] == []


def test_documented_run_toml_loads_and_shows_every_key(tmp_path: Path) -> None:
    example = README.split("```toml\n")[1].split("```")[0]
    assert set(tomllib.loads(example)) == set(RUN_KEYS)
    for key in FILE_KEYS:
        assert f"{key} = " in example
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8}')
    path = tmp_path / "run.toml"
    path.write_text(example)
    assert load_run_config(path).rule_for("c32/server.log").level_number == 32


def test_documented_client_line_is_recognised_and_read(tmp_path: Path) -> None:
    source = source_of(tmp_path, "requests.jsonl", README.split("```json\n")[1].split("```")[0])
    assert READER.sniff(source).score == 95
    sink, report = read(READER, source)
    assert sink.rows("raw_client_requests", "request_id", "output_tokens", "concurrency") == [
        ("r00001", 2, 16)
    ]
    assert report.skipped_count == 0


def test_frame_takes_units_from_the_registry_and_keeps_the_first_of_equals() -> None:
    rows = [
        Setting(2, "", "block_size", "16"),
        Setting(2, "", "block_size", "32"),
        Setting(2, "1", "block_size", "8"),
    ]
    assert settings_frame(rows).rows() == [
        (2, "", "block_size", "16", "tokens"),
        (2, "1", "block_size", "8", "tokens"),
    ]
    with pytest.raises(KeyError):
        settings_frame([Setting(1, "", "no_such_name", "1")])


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("org/model-8b", "org/model-8b"),
        ("model", "model"),
        ("/data/models/llama-2-13b", "llama-2-13b"),
        ("./model-small/", "model-small"),
        ("C:\\models\\m", "m"),
        ("home/me/model", "model"),
    ],
)
def test_folders_are_cut_off_model_names(name: str, kept: str) -> None:
    assert without_folders(name) == kept
