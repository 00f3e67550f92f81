"""How long a report is: everything for engineers, the first page's worth for an incident."""

from dataclasses import replace
from typing import Literal

from kvcliff.report.document import Block, Commands, ReportContent, Section, Table

Audience = Literal["engineer", "incident"]
AUDIENCES: tuple[Audience, ...] = ("engineer", "incident")
DEFAULT_AUDIENCE: Audience = "engineer"

#: Sections of a report for an incident, and the marts whose tables they keep; ``None`` keeps every block.
_INCIDENT_SECTIONS: dict[str, frozenset[str] | None] = {
    "window_changes": None,
    "window_comparison": None,
    "swap_points": None,
    "slo": None,
    "actions": None,
    "gaps": None,
    "provenance": frozenset({"sources"}),
}
#: Figures of a report for an incident.
_INCIDENT_FIGURES = frozenset({"kv_and_latency"})
_DIAGNOSE = "kvcliff diagnose "


def for_audience(content: ReportContent, audience: Audience) -> ReportContent:
    """Return the content in the length that the audience reads; an engineer's is whole."""
    content = replace(content, audience=audience)
    if audience == "engineer":
        return content
    return replace(
        content,
        figures=tuple(figure for figure in content.figures if figure.name in _INCIDENT_FIGURES),
        sections=tuple(
            _shortened(section) for section in content.sections if section.key in _INCIDENT_SECTIONS
        ),
    )


def _shortened(section: Section) -> Section:
    marts = _INCIDENT_SECTIONS[section.key]
    blocks = tuple(_reworded(block) for block in section.blocks if _is_kept(block, marts))
    return replace(section, blocks=blocks)


def _reworded(block: Block) -> Block:
    """Return commands that make this short report again, not the long one; other blocks stay."""
    if not isinstance(block, Commands):
        return block
    lines = (f"{line} --audience incident" if line.startswith(_DIAGNOSE) else line for line in block.lines)
    return Commands(tuple(lines))


def _is_kept(block: Block, marts: frozenset[str] | None) -> bool:
    return marts is None or not isinstance(block, Table) or block.mart in marts
