from pathlib import Path

import pytest

from kvcliff.cli.policy import read_policy
from kvcliff.errors import UsageProblem

NAMES = frozenset({"kv_full_ratio", "stall_min_s"})


def _policy(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_is_no_policy() -> None:
    assert read_policy(None, NAMES) == {}


@pytest.mark.parametrize("text", ["kv_full_ratio = 0.9", "[thresholds]\nkv_full_ratio = 0.9"])
def test_values_by_name(text: str, tmp_path: Path) -> None:
    assert read_policy(_policy(tmp_path, text), NAMES) == {"kv_full_ratio": 0.9}


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("kv_ful_ratio = 1", "unknown threshold: kv_ful_ratio", "did you mean kv_full_ratio?"),
        ("zzz = 1", "unknown threshold: zzz", "kvcliff sql run"),
        ("kv_full_ratio = 'high'", "is not a number", "kv_full_ratio = 0.9"),
        ("kv_full_ratio = true", "is not a number", "kv_full_ratio = 0.9"),
        ("kv_full_ratio", "is not TOML", "name = 0.9"),
        ("thresholds = 3", "is not a table", "name = 0.9"),
    ],
)
def test_what_cannot_be_used(text: str, words: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=words) as caught:
        read_policy(_policy(tmp_path, text), NAMES)
    assert hint in str(caught.value.hint)


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="No such file"):
        read_policy(tmp_path / "none.toml", NAMES)
