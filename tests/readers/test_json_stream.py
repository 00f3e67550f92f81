import json
from pathlib import Path

import pytest

from builders_metrics import source_of
from kvcliff.readers.json_stream import JsonCursor, JsonDamage


def cursor_of(folder: Path, text: str) -> JsonCursor:
    return JsonCursor(source_of(folder, "x.json", text).open())


def test_values_in_the_place_of_items_and_members_are_passed(tmp_path: Path) -> None:
    cursor = cursor_of(tmp_path, '{"a": 1, "list": [1, [2], {"b": 3}], "none": null, "z": "end"}')
    seen: list[object] = []
    for key in cursor.members():
        if key == "list":
            seen.extend(cursor.value() for _ in cursor.items())
        elif key == "none":
            seen.extend(cursor.items())
        elif key == "z":
            seen.append(cursor.value())
    assert seen == [1, [2], {"b": 3}, "end"]
    assert cursor.peek() == ""


def test_value_longer_than_a_piece_is_whole(tmp_path: Path) -> None:
    long = {"text": "ä" * 900_000, "number": 12345}
    cursor = cursor_of(tmp_path, json.dumps([long, long], ensure_ascii=False))
    assert [cursor.value() for _ in cursor.items()] == [long, long]


@pytest.mark.parametrize("text", ["[1, 2", "[1 2]", '{"a" 1}', "{1: 2}", '["abc', "[tru", "[1,]", ""])
def test_damage_is_told(tmp_path: Path, text: str) -> None:
    cursor = cursor_of(tmp_path, text)
    with pytest.raises(JsonDamage):
        list(cursor.members() if text.startswith("{") else cursor.items())


def test_deep_nesting_is_damage(tmp_path: Path) -> None:
    cursor = cursor_of(tmp_path, "[" * 200_000)
    with pytest.raises(JsonDamage):
        cursor.value()


def test_broken_line_leaves_the_next_line(tmp_path: Path) -> None:
    for broken in ('{"a": 7', '{"a": "text', '{"a', '{"a": [1, 2', '{"a": tru'):
        cursor = cursor_of(tmp_path, f'{broken}\n{{"b": 1}}\n')
        with pytest.raises(JsonDamage):
            list(cursor.members())
        cursor.rest_of_line()
        assert cursor.value() == {"b": 1}, broken


def test_object_is_told_from_a_label_set(tmp_path: Path) -> None:
    assert cursor_of(tmp_path, ' { "a": 1}').starts_object()
    assert cursor_of(tmp_path, "{}").starts_object()
    assert not cursor_of(tmp_path, '{__name__="up"} 1 2').starts_object()
    assert not cursor_of(tmp_path, "[1]").starts_object()
