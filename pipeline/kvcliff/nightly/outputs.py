"""All files of a pass beside the reports, and the exit code that says its verdict to a shell."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcliff.errors import CannotAnswerError, GateTripped, KvcliffError
from kvcliff.nightly.files import write_file, write_files
from kvcliff.nightly.index_page import index_files
from kvcliff.nightly.json_output import night_data
from kvcliff.nightly.junit import junit_xml
from kvcliff.nightly.night import Night, NightResult
from kvcliff.nightly.openmetrics import openmetrics_text
from kvcliff.nightly.state import announce
from kvcliff.nightly.summary import summary_line
from kvcliff.nightly.view import NightView, build_view

JSON_NAME = "nightly.json"
JUNIT_NAME = "junit.xml"
OPENMETRICS_NAME = "kvcliff.prom"
SUMMARY_NAME = "summary.txt"


@dataclass(frozen=True)
class NightOutputs:
    """What a pass has to say, in every form.

    Attributes:
        view: the content.
        summary: one line.
        data: the data of the JSON envelope.
        exit_code: 0, 4 (inconclusive), 10 (failed) or 70 (a bug met one of the runs, and none failed).
        files: everything but the JSON envelope, by path relative to the output folder.
    """

    view: NightView
    summary: str
    data: dict[str, Any]
    exit_code: int
    files: dict[str, bytes]


def build_outputs(night: Night, result: NightResult) -> NightOutputs:
    """Return what a pass has to say.

    Args:
        night: the pass.
        result: what came of it.
    """
    view = build_view(night, result)
    codes = {"failed": GateTripped.exit_code, "inconclusive": CannotAnswerError.exit_code, "passed": 0}
    exit_code = codes[view.verdict]
    if result.bugs and view.verdict != "failed":
        exit_code = KvcliffError.exit_code
    summary = summary_line(view)
    files = {
        **index_files(view),
        JUNIT_NAME: junit_xml(view).encode(),
        OPENMETRICS_NAME: openmetrics_text(view).encode(),
        SUMMARY_NAME: f"{summary}\n".encode(),
    }
    return NightOutputs(view, summary, night_data(view, exit_code), exit_code, files)


def write_outputs(
    night: Night, outputs: NightOutputs, envelope: str, *, textfile: Path | None = None
) -> tuple[Path, ...]:
    """Write every file, then note that this pass has told of its runs; return where the files are.

    Args:
        night: the pass.
        outputs: what to write.
        envelope: the JSON envelope around the outputs' data.
        textfile: a second place for the OpenMetrics text: the folder of a textfile collector.

    Raises:
        OutputError: a file cannot be written; the next pass tells of the runs then.
        StoreError: the database cannot be written.
    """
    write_files(night.output, {**outputs.files, JSON_NAME: envelope.encode()})
    paths = [night.output / name for name in (*outputs.files, JSON_NAME)]
    if textfile is not None:
        # Always anew: the time of this file is what an alarm on a job that stopped running looks at.
        write_file(textfile, outputs.files[OPENMETRICS_NAME], is_always=True)
        paths.append(textfile)
    told = [line.stored.judgement.run_id for line in outputs.view.told]
    announce(night.con, night.root_id, told, now_ns=night.now_ns)
    return tuple(paths)
