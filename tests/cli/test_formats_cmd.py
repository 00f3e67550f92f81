import json

from builders_cli import Invoke
from kvcliff.readers import READERS


def test_every_reader_is_listed(invoke: Invoke) -> None:
    data = json.loads(invoke("formats", "--format", "json").stdout)["data"]["formats"]
    assert [entry["name"] for entry in data] == [reader.name for reader in READERS]
    assert len({entry["name"] for entry in data}) == len(data) > 0


def test_text_says_what_was_tried(invoke: Invoke) -> None:
    lines = invoke("formats").stdout.splitlines()
    assert lines[0].endswith("tried on real files")
    assert [line.split()[0] for line in lines[2:]] == [reader.name for reader in READERS]
    assert {line.split()[-1] for line in lines[2:]} <= {"yes", "no"}
