#!/usr/bin/env bash
# Every check, in the order of how fast it answers. `tests/check.sh static` leaves pytest out.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=".venv/bin"
if [ ! -x "$bin/python" ]; then
    echo "there is no .venv: run 'make setup' first" >&2
    exit 1
fi

step() {
    echo "== $*"
    "$@"
}

step "$bin/ruff" format --check .
step "$bin/ruff" check .
step "$bin/mypy"
step "$bin/lint-imports"
step "$bin/sqlfluff" lint --processes 2 --disable-progress-bar sql
step "$bin/cog" --check -U README.md sql/README.md
if [ "${1:-}" = "static" ]; then
    exit 0
fi
# Tests marked slow (wheel, fresh environments) belong to the whole check.
step "$bin/python" -m pytest -n 2 -m "not benchmark and not accuracy and not fuzz"
