"""What a comparison knows of one stored run: its time, settings, load and metrics, level by level."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvcliff.errors import UsageProblem
from kvcliff.nightly.comparison.gpu import gpu_estimates, ledger_estimates, step_estimates, step_profiles
from kvcliff.nightly.comparison.kv import kv_estimates
from kvcliff.nightly.comparison.load import Load, read_loads
from kvcliff.nightly.comparison.marts import StoredMarts
from kvcliff.nightly.comparison.serving import bucket_estimates, request_estimates, total_estimates
from kvcliff.nightly.comparison.statistics import Estimate

#: A level, a metric key and an origin with the estimate that it gives.
Reading = tuple[str, str, str, Estimate]
#: Times before this are no dates (2001): a run whose clock starts at zero.
_FIRST_DATE_NS = 10**18


@dataclass(frozen=True)
class RunReading:
    """One stored run.

    Attributes:
        run_id: the run.
        started_ns: its begin; ``None`` when its times are no dates.
        ended_ns: its end.
        settings: effective value by scope and name.
        loads: what was asked of the server, by level.
        estimates: by level, metric key and origin.
        profiles: quantiles of decode steps by level, smallest first, to tell "every step" from "a few".
    """

    run_id: str
    started_ns: int | None
    ended_ns: int | None
    settings: dict[tuple[str, str], str]
    loads: dict[str, Load]
    estimates: dict[tuple[str, str], dict[str, Estimate]] = field(default_factory=dict)
    profiles: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that have metrics, in order of their names."""
        return tuple(sorted({level for level, _ in self.estimates}))

    def value(self, level: str, key: str) -> float | None:
        """Return the value of a metric from its best origin, ``None`` when there is none."""
        found = self.estimates.get((level, key))
        return next(iter(found.values())).value if found else None

    def names(self, level: str, prefix: str) -> tuple[str, ...]:
        """Return the keys of a family of metrics (``family:``) at a level."""
        return tuple(
            sorted(key for where, key in self.estimates if where == level and key.startswith(prefix))
        )


def read_run(marts: StoredMarts, run_id: str) -> RunReading:
    """Return what a comparison needs of a stored run.

    Raises:
        UsageProblem: the store has no such run.
    """
    columns = ("started_at_ns", "ended_at_ns", "utc_known", "year_known")
    runs = marts.rows("runs", columns, run_id)
    if not runs:
        raise UsageProblem(f"the database holds no run {run_id}", hint="see the runs: kvcliff runs list")
    started, ended, is_utc, is_year = runs[0]
    is_dated = started is not None and started >= _FIRST_DATE_NS and bool(is_utc or is_year)
    settings = marts.rows(
        "settings", ("scope", "name", "value"), run_id, where="is_effective", order="scope, name, value",
        needs=("is_effective", "scope", "name", "value"),
    )  # fmt: skip
    reading = RunReading(
        run_id,
        started if is_dated else None,
        ended if is_dated else None,
        _joined_settings(settings),
        read_loads(marts, run_id),
        profiles=step_profiles(marts, run_id),
    )
    for level, key, origin, estimate in _estimates(marts, run_id):
        reading.estimates.setdefault((level, key), {})[origin] = estimate
    return reading


def _joined_settings(rows: list[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """Return values by scope and name; several effective values of one name stand together."""
    found: dict[tuple[str, str], str] = {}
    for scope, name, value in rows:
        key = (scope or "", name)
        found[key] = f"{found[key]}, {value}" if key in found else str(value)
    return found


def _estimates(marts: StoredMarts, run_id: str) -> Iterator[Reading]:
    """Yield all metrics of a run; of one metric the best origin comes first."""
    for read in (
        request_estimates,
        bucket_estimates,
        total_estimates,
        kv_estimates,
        step_estimates,
        gpu_estimates,
        ledger_estimates,
    ):
        yield from read(marts, run_id)
