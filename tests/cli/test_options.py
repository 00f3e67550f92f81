from pathlib import Path

import click
import pytest

from builders_cli import Invoke
from kvcliff.cli.options import environment_name
from kvcliff.cli.reference import walk_commands
from kvcliff.cli.root import root


@pytest.mark.parametrize(("name", "command"), [("kvcliff", root), *walk_commands()])
def test_every_option_reads_the_environment(name: str, command: click.Command) -> None:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and "--version" not in parameter.opts:
            long_flag = next(flag for flag in parameter.opts if flag.startswith("--"))
            assert parameter.envvar == environment_name(long_flag), (name, long_flag)


def test_environment_chooses_the_database(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("runs", "list", env={"KVCLIFF_DB": str(tmp_path / "elsewhere.duckdb")})
    assert result.exit_code == 1
    assert "elsewhere.duckdb" in result.stderr
