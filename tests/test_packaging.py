"""The wheel holds the SQL, works from another folder, and is the same through an sdist."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from builders_cli import write_run
from kvcliff import __version__
from kvcliff.resources import sql_root

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def _run(*arguments: str | Path, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    # Neither the checkout nor the caller's variables may help the installed package.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "MPLCONFIGDIR": str(home)}
    return subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def _sql_files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in (".sql", ".csv")
    }


def test_checkout_reads_its_own_sql() -> None:
    assert sql_root() == ROOT / "sql"


def test_lock_is_pinned_hashed_and_names_no_place() -> None:
    blocks = re.split(r"\n(?=[a-z0-9])", LOCK.strip())
    for block in blocks:
        assert re.match(r"[a-z0-9._-]+==[\w.]+( ; [^\\]+)? \\\n", block), block.splitlines()[0]
        assert "--hash=sha256:" in block
    assert "://" not in LOCK
    assert "/" not in re.sub(r"--hash=\S+", "", LOCK)


def test_lock_covers_every_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[<>=\[ ]", line)[0].lower().replace("_", "-") for line in wanted}
    locked = set(re.findall(r"^([a-z0-9._-]+)==", LOCK, re.MULTILINE))
    assert names <= locked


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_sdist_and_wheel_hold_what_they_must(built: Path) -> None:
    with tarfile.open(built / f"kvcliff-{__version__}.tar.gz") as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "sql/README.md"} <= names
    with zipfile.ZipFile(built / f"kvcliff-{__version__}-py3-none-any.whl") as wheel:
        inside = set(wheel.namelist())
    assert {f"kvcliff/sql/{name}" for name in _sql_files(ROOT / "sql")} <= inside
    assert "kvcliff/py.typed" in inside
    assert f"kvcliff-{__version__}.dist-info/licenses/LICENSE" in inside
    assert not [name for name in inside if "__pycache__" in name or name.startswith("tests")]


@pytest.mark.slow
def test_sdist_builds_the_same_wheel_as_the_checkout(built: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name = f"kvcliff-{__version__}-py3-none-any.whl"
    contents = []
    for folder in (built, tmp_path):
        with zipfile.ZipFile(folder / name) as wheel:
            contents.append({entry.filename: entry.CRC for entry in wheel.infolist()})
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_installed_wheel_works_elsewhere(built: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    wheel = built / f"kvcliff-{__version__}-py3-none-any.whl"
    installed = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            str(wheel),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    # The dependencies of this environment are lent to the fresh one: the wheel is under test, not the index.
    site = next((venv / "lib").glob("python*/site-packages"))
    lenders = [path for path in sys.path if path.endswith("site-packages")]
    (site / "zz_lent.pth").write_text("\n".join(lenders) + "\n", encoding="utf-8")

    elsewhere = tmp_path / "elsewhere"
    run = write_run(elsewhere / "easy")
    command = venv / "bin" / "kvcliff"
    where = _run(
        python, "-c", "import kvcliff.resources as r; print(r.sql_root())", cwd=elsewhere, home=tmp_path
    )
    assert where.stdout.strip() == str(site / "kvcliff" / "sql"), where.stderr
    assert _run(command, "--version", cwd=elsewhere, home=tmp_path).stdout.strip().endswith(__version__)
    doctor = _run(command, "doctor", cwd=elsewhere, home=tmp_path)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    diagnosed = _run(command, "diagnose", run, cwd=elsewhere, home=tmp_path)
    assert diagnosed.returncode == 0, diagnosed.stderr
    assert (elsewhere / "kvcliff-reports" / "easy" / "report.md").exists()
