"""Policy files: other threshold values than the built-in ones."""

import difflib
from pathlib import Path

from kvcliff.errors import UsageProblem
from kvcliff.readers.toml_values import parse_toml

#: Tables of a policy file that are the nightly job's.
NIGHTLY_TABLES = ("discovery", "baseline", "gate", "series", "quarantine", "retention")


def read_policy(path: Path | None, known_names: frozenset[str]) -> dict[str, float]:
    """Return the threshold values of a policy file by name; empty without a file.

    The file is TOML: ``name = number`` lines, alone or under ``[thresholds]``. The tables of the nightly
    policy may stand beside them; the nightly job reads those.

    Args:
        path: the file, or ``None``.
        known_names: thresholds that exist.

    Raises:
        UsageProblem: the file cannot be read, or names something that is no threshold.
    """
    if path is None:
        return {}
    try:
        document = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise UsageProblem(
            f"cannot read the policy file {path}: {exc.strerror or exc}", hint="check --policy"
        ) from exc
    except ValueError as exc:
        raise UsageProblem(
            f"the policy file {path} is not TOML: {exc}", hint="write lines like: name = 0.9"
        ) from exc
    is_nightly = any(isinstance(document.get(name), dict | list) for name in NIGHTLY_TABLES)
    values = document.get("thresholds", {} if is_nightly else document)
    if not isinstance(values, dict):
        raise UsageProblem(
            f"[thresholds] of the policy file {path} is not a table", hint="write lines like: name = 0.9"
        )
    for name, value in values.items():
        if name not in known_names:
            close = difflib.get_close_matches(name, sorted(known_names), n=1)
            hint = (
                f"did you mean {close[0]}?"
                if close
                else 'see them: kvcliff sql run "select * from thresholds"'
            )
            raise UsageProblem(f"the policy file {path} names an unknown threshold: {name}", hint=hint)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageProblem(
                f"the threshold {name} in the policy file {path} is not a number", hint=f"{name} = 0.9"
            )
    return {name: float(value) for name, value in values.items()}
