"""The pass in one line, for chat and subject lines."""

from kvcliff.nightly.view import NightView, RunLine, counts
from kvcliff.report.escape import plain

_MAX_CHARS = 400
_WORDS = {"set_aside": "set aside by the policy"}


def summary_line(view: NightView) -> str:
    """Return one line of plain text: the verdict, how many runs, and the worst one with its reason."""
    parts = [_runs(view)]
    first = _worst(view)
    if first is not None:
        parts.append(f"{first.name}: {first.stored.judgement.summary}")
    if view.result.set_aside:
        folder = view.result.set_aside[0]
        more = f" and {len(view.result.set_aside) - 1} more" if len(view.result.set_aside) > 1 else ""
        parts.append(f"set aside: {folder.folder}{more} ({folder.reason})")
    if view.result.report_problems:
        run_id, refusal = view.result.report_problems[0]
        count = len(view.result.report_problems)
        more = f" and {count - 1} more" if count > 1 else ""
        parts.append(f"no report of {run_id}{more} ({refusal.reason})")
    text = "; ".join(part.removesuffix(".") for part in parts)
    return plain(f"kvcliff nightly {view.verdict}: {text}", max_chars=_MAX_CHARS)


def _runs(view: NightView) -> str:
    if not view.told:
        return "no new run"
    total = len(view.told)
    found = ", ".join(f"{count} {_WORDS.get(word, word)}" for word, count in counts(view.told).items())
    return f"{total} new run{'s' if total != 1 else ''}: {found}"


def _worst(view: NightView) -> RunLine | None:
    """Return the first run of the gravest verdict that needs words."""
    for word in ("failed", "inconclusive", "warned"):
        for line in view.told:
            if line.stored.judgement.verdict == word:
                return line
    return None
