"""``run.toml``: what the files of a run cannot say, parsed and checked into frozen dataclasses."""

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kvcliff.errors import InputError, UsageProblem
from kvcliff.readers.base import ReadContext
from kvcliff.readers.model_shape import model_shape
from kvcliff.readers.settings import SETTING_NAMES, SettingGroup
from kvcliff.readers.toml_values import TomlTable, parse_toml

ROLES: Final = ("log", "metrics", "client", "trace", "counters", "device", "model")
RUN_KEYS: Final = ("name", "labels", "time_zone", "year", "file", "model", "gpu", "engine", "slo")
FILE_KEYS: Final = (
    "path",
    "role",
    "level",
    "level_number",
    "replica",
    "time_zone",
    "year",
    "clock_offset_s",
    "interval_ms",
    "ignore",
)
_GROUPS: Final[tuple[SettingGroup, ...]] = ("model", "gpu", "engine", "slo")
#: Inside its own table a setting is written without the table's name: ``[gpu] name`` is ``gpu_name``.
_PREFIXES: Final = {"gpu": "gpu_", "slo": "slo_", "model": "", "engine": ""}
_UNITS: Final = {setting.name: setting.unit for setting in SETTING_NAMES}
_SIZE_LIMIT_BYTES: Final = 1 << 20
_MODEL_LIMIT_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class RunSetting:
    """One setting that run.toml states."""

    scope: str
    name: str
    value: str
    unit: str | None


@dataclass(frozen=True)
class FileRule:
    """One ``[[file]]`` table: what holds for the files that its path pattern matches.

    Attributes:
        path: pattern over relative paths; ``*`` crosses folders, a bare name is looked for in every folder.
        role: what the file is, when its content leaves doubt.
        level: name of the sweep level.
        level_number: number of the level (concurrency, say).
        replica: name of the replica.
        zone_offset_s: seconds east of UTC of the file's local stamps.
        year: year of stamps that have none.
        clock_offset_s: what to add to the file's clock to get UTC; wins over every computed offset.
        interval_ms: sampling interval of a table without times.
        is_ignored: whether the file is left out.
    """

    path: str
    role: str | None = None
    level: str | None = None
    level_number: float | None = None
    replica: str | None = None
    zone_offset_s: int | None = None
    year: int | None = None
    clock_offset_s: float | None = None
    interval_ms: float | None = None
    is_ignored: bool | None = None

    def matches(self, relative_path: str) -> bool:
        """Return whether the rule is about a file of the run."""
        return fnmatchcase(relative_path, self.path) or fnmatchcase(relative_path, f"*/{self.path}")


@dataclass(frozen=True)
class RunConfig:
    """All of run.toml.

    Attributes:
        name: name of the run.
        labels: labels of the run, sorted by key.
        zone_offset_s: seconds east of UTC of local stamps in all files.
        year: year of stamps that have none, in all files.
        files: the ``[[file]]`` tables in their order.
        stated: settings of ``[model] [gpu] [engine] [slo]``, sorted by name.
    """

    name: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    zone_offset_s: int | None = None
    year: int | None = None
    files: tuple[FileRule, ...] = ()
    stated: tuple[RunSetting, ...] = ()

    def rule_for(self, relative_path: str) -> FileRule:
        """Return what holds for a file: all rules that match it, each key from the last rule that has it."""
        merged: dict[str, object] = {}
        for rule in self.files:
            if rule.matches(relative_path):
                stated = {name: getattr(rule, name) for name in FileRule.__dataclass_fields__}
                merged.update({name: value for name, value in stated.items() if value is not None})
        return FileRule(**{**merged, "path": relative_path})  # type: ignore[arg-type]

    def context_for(self, relative_path: str) -> ReadContext:
        """Return what a reader should know about a file."""
        rule = self.rule_for(relative_path)
        interval = {} if rule.interval_ms is None else {"interval_ms": str(rule.interval_ms)}
        return ReadContext(
            time_zone_offset_s=self.zone_offset_s if rule.zone_offset_s is None else rule.zone_offset_s,
            year=self.year if rule.year is None else rule.year,
            options=MappingProxyType(interval),
        )

    def settings(self) -> tuple[tuple[str, str, str, str | None], ...]:
        """Return (scope, name, value, unit) of every setting that run.toml states."""
        return tuple((setting.scope, setting.name, setting.value, setting.unit) for setting in self.stated)


def load_run_config(path: Path) -> RunConfig:
    """Return the checked content of a run.toml.

    Raises:
        InputError: the file cannot be opened.
        UsageProblem: the file is no TOML, a key is unknown, or a value has the wrong kind.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_SIZE_LIMIT_BYTES + 1)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise InputError(
            f"cannot read {path.name}: {reason}", hint="check the path and its permissions"
        ) from exc
    hint = "kvcliff's readers/README.md shows a whole run.toml"
    if len(raw) > _SIZE_LIMIT_BYTES:
        raise UsageProblem(f"{path.name} is larger than 1 MiB and therefore no run.toml", hint=hint)
    try:
        entries = parse_toml(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise UsageProblem(f"{path.name} is not encoded in UTF-8", hint=hint) from exc
    except ValueError as exc:
        raise UsageProblem(f"{path.name} is no valid TOML{_place(exc)}", hint=hint) from exc
    return _run_config(TomlTable(path.name, "", entries), path.parent)


def _place(error: Exception) -> str:
    """Return where a TOML error lies, without the text around it."""
    _, found, place = str(error).rpartition("(at ")
    return f" (at {place}" if found else ""


def _run_config(table: TomlTable, folder: Path) -> RunConfig:
    """Return the whole file."""
    table.allow(RUN_KEYS)
    labels = table.table("labels")
    return RunConfig(
        name=table.text("name"),
        labels=tuple((key, labels.scalar(key) or "") for key in sorted(labels.entries)),
        zone_offset_s=table.zone_offset_s("time_zone"),
        year=table.year("year"),
        files=tuple(_file_rule(entry) for entry in table.tables("file")),
        stated=_settings(table, folder),
    )


def _file_rule(table: TomlTable) -> FileRule:
    """Return one ``[[file]]`` table."""
    table.allow(FILE_KEYS)
    path, role = table.text("path"), table.text("role")
    if path is None:
        raise table.problem(f"'{table.prefix}path' is missing", 'each [[file]] needs path = "pattern"')
    if role is not None and role not in ROLES:
        raise table.problem(f"'{table.prefix}role' is unknown", f"one of: {', '.join(ROLES)}")
    interval_ms = table.number("interval_ms")
    if interval_ms is not None and interval_ms <= 0:
        raise table.problem(f"'{table.prefix}interval_ms' is not positive", "write interval_ms = 1000")
    return FileRule(
        path=path,
        role=role,
        level=table.scalar("level"),
        level_number=_level_number(table),
        replica=table.scalar("replica"),
        zone_offset_s=table.zone_offset_s("time_zone"),
        year=table.year("year"),
        clock_offset_s=table.number("clock_offset_s"),
        interval_ms=interval_ms,
        is_ignored=table.flag("ignore"),
    )


def _level_number(table: TomlTable) -> float | None:
    """Return the number of a level; a level that is written as a number is one."""
    level = table.entries.get("level")
    is_number = isinstance(level, (int, float)) and not isinstance(level, bool)
    stated = table.number("level_number")
    return table.number("level") if stated is None and is_number else stated


def _settings(table: TomlTable, folder: Path) -> tuple[RunSetting, ...]:
    """Return the settings of all tables that hold some; explicit ones win over ``[model] config``."""
    found = _shape_of_config(table.table("model"), folder)
    for group in _GROUPS:
        entries = table.table(group)
        names = {
            item.name.removeprefix(_PREFIXES[group]): item.name
            for item in SETTING_NAMES
            if item.group == group
        }
        entries.allow([*names, "config"] if group == "model" else names)
        for key in entries.entries:
            value = None if (group, key) == ("model", "config") else entries.scalar(key)
            if value is not None:
                found[names[key]] = value
    return tuple(RunSetting("", name, found[name], _UNITS[name]) for name in sorted(found))


def _model_file(path: Path) -> bytes:
    """Return the content of a model's config.json; a device or a giant is none.

    Raises:
        OSError: it cannot be opened, or is no file.
        ValueError: it is too large.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        raw = file.read(_MODEL_LIMIT_BYTES + 1)
    if len(raw) > _MODEL_LIMIT_BYTES:
        raise ValueError("too large")
    return raw


def _shape_of_config(model: TomlTable, folder: Path) -> dict[str, str]:
    """Return the shape in the ``config.json`` that ``[model] config`` points to, relative to run.toml."""
    stated = model.text("config")
    if stated is None:
        return {}
    try:
        config = json.loads(_model_file(folder / stated))
    except OSError as exc:
        raise model.problem("'model.config' cannot be opened", "give its path relative to run.toml") from exc
    except (ValueError, RecursionError) as exc:
        raise model.problem("'model.config' is no JSON", "point it to the model's config.json") from exc
    shape = model_shape(config) if isinstance(config, dict) else {}
    if not shape:
        raise model.problem("'model.config' holds no model shape", "point it to the model's config.json")
    return shape
