"""``kvcliff formats``: every file format that is read."""

import click

from kvcliff.cli.options import example, format_option
from kvcliff.cli.output import Envelope, format_table, say_lines, say_raw


@click.command(epilog=example("kvcliff formats", "kvcliff inspect sample_traces/gpu_story"))
@format_option("text", "json")
def formats(output_format: str) -> None:
    """List the file formats that kvcliff reads.

    Files are recognised by content; .gz, .xz and .zst are read as they are. The last column says
    whether recordings of the real tool were read, or only files made after its documentation.
    """
    from kvcliff.readers import READERS

    if output_format == "json":
        data = [
            {
                "name": reader.name,
                "title": reader.title,
                "role": reader.role,
                "tables": list(reader.tables),
                "tried_on_real_files": reader.tried_on_real_files,
            }
            for reader in READERS
        ]
        say_raw(Envelope("formats", {"formats": data}).to_json())
        return
    rows = [
        (reader.name, reader.role, reader.title, "yes" if reader.tried_on_real_files else "no")
        for reader in READERS
    ]
    say_lines(format_table(("format", "role", "what it is", "tried on real files"), rows))
