"""Where the SQL files live: inside the installed package, or in the checkout."""

from functools import lru_cache
from pathlib import Path

REPORT_SCHEMA_NAME = "report.schema.json"


def report_schema_text() -> str:
    """Return the JSON Schema of ``report.json`` as text."""
    return (Path(__file__).resolve().parent / "report" / REPORT_SCHEMA_NAME).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def sql_root() -> Path:
    """Return the folder that holds ``raw/ staging/ intermediate/ marts/ macros/ seeds/``.

    Raises:
        FileNotFoundError: neither the wheel nor a checkout holds the folder (a broken install).
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "sql", package.parent.parent / "sql"):
        if (candidate / "marts").is_dir():
            return candidate
    raise FileNotFoundError(f"no sql folder beside {package}; reinstall kvcliff")
