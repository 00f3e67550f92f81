import click

from kvcliff.cli.capture_advice import CAPTURES, missing_captures
from kvcliff.cli.reference import documented_options, render_options, render_own_options, walk_commands
from kvcliff.cli.root import root
from kvcliff.readers import READERS


def test_an_option_is_documented_once_with_all_its_commands() -> None:
    options = {entry.environment: entry for entry in documented_options()}
    assert options["KVCLIFF_KEEP"].commands == ("diagnose", "ingest")
    assert options["KVCLIFF_OUTPUT"].flags == "`-o`, `--output`"
    assert len(options) == len(documented_options())


def test_the_same_option_means_the_same_everywhere() -> None:
    meanings: dict[str, set[str]] = {}
    for _, command in (("kvcliff", root), *walk_commands()):
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.envvar is not None:
                meanings.setdefault(str(parameter.envvar), set()).add(parameter.help or "")
    assert {name: texts for name, texts in meanings.items() if len(texts) > 1} == {}


def test_tables_are_markdown() -> None:
    lines = render_options().splitlines()
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_every_option_stands_in_one_table() -> None:
    shared, own = render_options(), render_own_options()
    for entry in documented_options():
        row = f"| {entry.flags} | `{entry.environment}` |"
        assert shared.count(row) + own.count(row) == 1, row
    assert "`KVCLIFF_DB`" in shared
    assert "`KVCLIFF_KV_LORA_RANK`" in own.split("<code>kvcliff ledger</code>")[1].split("</details>")[0]


def test_captures_name_roles_that_readers_have() -> None:
    roles = {reader.role for reader in READERS}
    assert {capture.role for capture in CAPTURES} <= roles


def test_missing_captures_keep_their_order() -> None:
    assert [item.role for item in missing_captures(frozenset({"metrics", "trace"}))] == [
        "client",
        "log",
        "device",
        "model",
    ]
