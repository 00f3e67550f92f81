"""The nightly policy: a TOML file that says what counts as a run, a baseline and a failure."""

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, get_args

from kvcliff.errors import UsageProblem
from kvcliff.nightly.comparison.metrics import METRICS, find_spec
from kvcliff.readers.toml_values import TomlTable, parse_toml

#: What a bad outcome does: exit 10, exit 4, a line in the report, or nothing.
Severity = Literal["fail", "inconclusive", "warn", "ignore"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
SWAP_POINT_CLASSES = ("confirmed", "probable", "pressure")
_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_QUOTED_KEY = re.compile(r"'([\w.\[\]-]+)'")


@dataclass(frozen=True)
class DiscoveryPolicy:
    """Which folders below the root are runs, and when they are complete.

    Attributes:
        marker: name of the file that says a folder is complete; without one, the quiet period decides.
        quiet_s: a folder is complete when nothing in it changed for so long.
        depth: how many levels below the root the run folders lie.
        ignore: patterns of folders (relative to the root) that are no runs.
        attempts: a run during which the process died so often is set aside.
    """

    marker: str | None = None
    quiet_s: float = 300.0
    depth: int = 1
    ignore: tuple[str, ...] = ()
    attempts: int = 3


@dataclass(frozen=True)
class BaselinePolicy:
    """What a run is compared with.

    Attributes:
        labels: labels of run.toml that must be equal; ``None`` means all of them.
        ignore_labels: labels that may differ (a commit, a date).
        runs: how many good runs before it make the baseline.
        min_runs: with fewer, a run is not compared: the series is still learning.
    """

    labels: tuple[str, ...] | None = None
    ignore_labels: tuple[str, ...] = ()
    runs: int = 5
    min_runs: int = 1


@dataclass(frozen=True)
class MetricRule:
    """What holds for one metric; ``None`` leaves the general rule."""

    severity: Severity | None = None
    min_change_ratio: float | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class SeriesRule:
    """What holds for series whose name matches a pattern."""

    match: str
    allowed_swap_points: int | None = None
    metrics: tuple[tuple[str, MetricRule], ...] = ()


@dataclass(frozen=True)
class GatePolicy:
    """What trips the gate.

    Attributes:
        worse: severity of a metric that got worse.
        inconclusive: severity of a comparison that concludes nothing.
        broken_run: severity of a folder that cannot be read.
        swap_points: severity of more swap points than allowed.
        allowed_swap_points: how many a run may have; ``None`` leaves it to the comparison with the baseline.
        swap_point_classes: which classes count.
        metrics: rules of single metrics.
    """

    worse: Severity = "fail"
    inconclusive: Severity = "inconclusive"
    broken_run: Severity = "inconclusive"
    swap_points: Severity = "fail"
    allowed_swap_points: int | None = None
    swap_point_classes: tuple[str, ...] = ("confirmed",)
    metrics: tuple[tuple[str, MetricRule], ...] = ()


@dataclass(frozen=True)
class QuarantinePolicy:
    """What is looked at but never trips the gate: folders or run ids (patterns), and metrics."""

    runs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class RetentionPolicy:
    """How long raw rows stay, and when the file is made small again; ``None`` means for ever, never."""

    raw_days: float | None = None
    compact_free_ratio: float | None = 0.5


@dataclass(frozen=True)
class NightlyPolicy:
    """All of the policy file."""

    discovery: DiscoveryPolicy = field(default_factory=DiscoveryPolicy)
    baseline: BaselinePolicy = field(default_factory=BaselinePolicy)
    gate: GatePolicy = field(default_factory=GatePolicy)
    series: tuple[SeriesRule, ...] = ()
    quarantine: QuarantinePolicy = field(default_factory=QuarantinePolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    thresholds: tuple[tuple[str, float], ...] = ()

    @property
    def metrics_with_rules(self) -> tuple[str, ...]:
        """The metrics that any rule names."""
        names = {name for name, _ in self.gate.metrics}
        return tuple(sorted(names | {name for entry in self.series for name, _ in entry.metrics}))

    def rule_for(self, metric: str, series: str) -> MetricRule:
        """Return what holds for a metric in a series: the series' own rule wins key by key."""
        rules = [rule for name, rule in self.gate.metrics if name == metric]
        for entry in self.series:
            if fnmatchcase(series, entry.match):
                rules += [rule for name, rule in entry.metrics if name == metric]
        merged = MetricRule()
        for rule in rules:
            merged = _merged(merged, rule)
        return merged

    def allowed_swap_points(self, series: str) -> int | None:
        """Return how many swap points a run of the series may have, ``None`` when no number is set."""
        allowed = self.gate.allowed_swap_points
        for entry in self.series:
            if entry.allowed_swap_points is not None and fnmatchcase(series, entry.match):
                allowed = entry.allowed_swap_points
        return allowed


def _merged(general: MetricRule, special: MetricRule) -> MetricRule:
    return MetricRule(
        severity=special.severity if special.severity is not None else general.severity,
        min_change_ratio=(
            special.min_change_ratio if special.min_change_ratio is not None else general.min_change_ratio
        ),
        minimum=special.minimum if special.minimum is not None else general.minimum,
        maximum=special.maximum if special.maximum is not None else general.maximum,
    )


def read_nightly_policy(path: Path, *, known_thresholds: frozenset[str]) -> NightlyPolicy:
    """Return the checked content of a policy file.

    Args:
        path: the TOML file.
        known_thresholds: thresholds that ``[thresholds]`` may change.

    Raises:
        UsageProblem: it cannot be read, or holds something unknown or of the wrong kind; the line is named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise UsageProblem(
            f"cannot read the policy file {path}: {exc.strerror or exc}", hint="check --policy"
        ) from exc
    except UnicodeDecodeError as exc:
        raise UsageProblem(f"the policy file {path} is not encoded in UTF-8", hint="check --policy") from exc
    try:
        entries = parse_toml(text)
    except ValueError as exc:
        raise UsageProblem(
            f"the policy file {path} is not TOML: {exc}", hint="an example is in README's chapter Nightly"
        ) from exc
    try:
        return _policy(TomlTable(str(path), "", entries), known_thresholds)
    except UsageProblem as exc:
        line_no = _line_of(text, exc.message)
        where = f", line {line_no}" if line_no is not None else ""
        raise UsageProblem(exc.message.replace(f"{path}:", f"{path}{where}:", 1), hint=exc.hint) from exc


def _line_of(text: str, message: str) -> int | None:
    """Return the line of the key that a message quotes, found by its header; the parser keeps no places."""
    quoted = _QUOTED_KEY.search(message)
    if quoted is None:
        return None
    table, _, key = re.sub(r"\[\d+\]", "", quoted[1]).rpartition(".")
    wanted = re.compile(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*[=.]")
    header, found = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.match(line):
            header = match[1]
            if header in (quoted[1], f"{table}.{key}"):
                found = found or number
        elif header == table and wanted.match(line):
            return number
    return found


def _policy(table: TomlTable, known_thresholds: frozenset[str]) -> NightlyPolicy:
    table.allow(("discovery", "baseline", "gate", "series", "quarantine", "retention", "thresholds"))
    thresholds = table.table("thresholds")
    thresholds.allow(known_thresholds)
    return NightlyPolicy(
        discovery=_discovery(table.table("discovery")),
        baseline=_baseline(table.table("baseline")),
        gate=_gate(table.table("gate")),
        series=tuple(_series(entry) for entry in table.tables("series")),
        quarantine=_quarantine(table.table("quarantine")),
        retention=_retention(table.table("retention")),
        thresholds=tuple((name, thresholds.number(name) or 0.0) for name in sorted(thresholds.entries)),
    )


def _discovery(table: TomlTable) -> DiscoveryPolicy:
    table.allow(DiscoveryPolicy.__dataclass_fields__)
    default = DiscoveryPolicy()
    marker = table.text("marker")
    if marker is not None and "/" in marker:
        raise table.problem(f"'{table.prefix}marker' is no file name", 'write marker = "DONE"')
    return DiscoveryPolicy(
        marker=marker,
        quiet_s=_positive(table, "quiet_s", default.quiet_s, at_least=0),
        depth=_whole(table, "depth", default.depth, at_least=1),
        ignore=_texts(table, "ignore") or (),
        attempts=_whole(table, "attempts", default.attempts, at_least=1),
    )


def _baseline(table: TomlTable) -> BaselinePolicy:
    table.allow(BaselinePolicy.__dataclass_fields__)
    default = BaselinePolicy()
    return BaselinePolicy(
        labels=_texts(table, "labels"),
        ignore_labels=_texts(table, "ignore_labels") or (),
        runs=_whole(table, "runs", default.runs, at_least=1),
        min_runs=_whole(table, "min_runs", default.min_runs, at_least=1),
    )


def _gate(table: TomlTable) -> GatePolicy:
    table.allow(GatePolicy.__dataclass_fields__)
    default = GatePolicy()
    classes = _texts(table, "swap_point_classes")
    for name in classes or ():
        if name not in SWAP_POINT_CLASSES:
            raise table.problem(
                f"'{table.prefix}swap_point_classes' names no class: {name}",
                f"one of: {', '.join(SWAP_POINT_CLASSES)}",
            )
    return GatePolicy(
        worse=_severity(table, "worse") or default.worse,
        inconclusive=_severity(table, "inconclusive") or default.inconclusive,
        broken_run=_severity(table, "broken_run") or default.broken_run,
        swap_points=_severity(table, "swap_points") or default.swap_points,
        allowed_swap_points=_allowed(table),
        swap_point_classes=default.swap_point_classes if classes is None else classes,
        metrics=_metric_rules(table.table("metrics")),
    )


def _series(table: TomlTable) -> SeriesRule:
    table.allow(SeriesRule.__dataclass_fields__)
    match = table.text("match")
    if match is None:
        raise table.problem(
            f"'{table.prefix}match' is missing", 'each [[series]] needs match = "model=llama*"'
        )
    return SeriesRule(
        match=match,
        allowed_swap_points=_allowed(table),
        metrics=_metric_rules(table.table("metrics")),
    )


def _allowed(table: TomlTable) -> int | None:
    key = "allowed_swap_points"
    return _whole(table, key, 0, at_least=0) if key in table.entries else None


def _quarantine(table: TomlTable) -> QuarantinePolicy:
    table.allow(QuarantinePolicy.__dataclass_fields__)
    metrics = _texts(table, "metrics") or ()
    for name in metrics:
        if not _is_metric(name):
            raise table.problem(f"'{table.prefix}metrics' names no metric: {name}", _known_metrics())
    return QuarantinePolicy(_texts(table, "runs") or (), metrics)


def _retention(table: TomlTable) -> RetentionPolicy:
    table.allow(RetentionPolicy.__dataclass_fields__)
    ratio = table.number("compact_free_ratio")
    if ratio is not None and not 0 < ratio <= 1:
        raise table.problem(
            f"'{table.prefix}compact_free_ratio' is not between 0 and 1", "write compact_free_ratio = 0.5"
        )
    raw_days = table.number("raw_days")
    if raw_days is not None and raw_days < 0:
        raise table.problem(f"'{table.prefix}raw_days' is negative", "write raw_days = 30")
    return RetentionPolicy(raw_days, RetentionPolicy().compact_free_ratio if ratio is None else ratio)


def _is_metric(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and name != spec.key.removesuffix(":") + ":"


def _known_metrics() -> str:
    names = [spec.key + "NAME" if spec.key.endswith(":") else spec.key for spec in METRICS]
    return f"one of: {', '.join(sorted(names))}"


def _metric_rules(table: TomlTable) -> tuple[tuple[str, MetricRule], ...]:
    for name in table.entries:
        if not _is_metric(name):
            raise table.problem(f"unknown metric '{table.prefix}{name}'", _known_metrics())
    return tuple((name, _metric_rule(table.table(name))) for name in sorted(table.entries))


def _metric_rule(table: TomlTable) -> MetricRule:
    table.allow(("severity", "min_change_ratio", "min", "max"))
    ratio = table.number("min_change_ratio")
    if ratio is not None and ratio <= 0:
        raise table.problem(
            f"'{table.prefix}min_change_ratio' is not positive", "write min_change_ratio = 0.05 for 5 %"
        )
    return MetricRule(
        severity=_severity(table, "severity"),
        min_change_ratio=ratio,
        minimum=table.number("min"),
        maximum=table.number("max"),
    )


def _severity(table: TomlTable, key: str) -> Severity | None:
    word = table.text(key)
    for severity in SEVERITIES:
        if word == severity:
            return severity
    if word is None:
        return None
    raise table.problem(f"'{table.prefix}{key}' is no severity: {word}", f"one of: {', '.join(SEVERITIES)}")


def _texts(table: TomlTable, key: str) -> tuple[str, ...] | None:
    value = table.entries.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise table.problem(f"'{table.prefix}{key}' is no list of texts", f'write {key} = ["one", "two"]')
    return tuple(value)


def _whole(table: TomlTable, key: str, default: int, *, at_least: int) -> int:
    value = table.number(key)
    if value is None:
        return default
    if not isinstance(value, int) or value < at_least:
        raise table.problem(
            f"'{table.prefix}{key}' is no whole number from {at_least} up", f"write {key} = {max(default, 1)}"
        )
    return value


def _positive(table: TomlTable, key: str, default: float, *, at_least: float) -> float:
    value = table.number(key)
    if value is None:
        return default
    if value < at_least:
        raise table.problem(f"'{table.prefix}{key}' is below {at_least:g}", f"write {key} = {default:g}")
    return value
