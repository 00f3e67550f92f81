"""The HTML report in a real browser: it shows, light and dark, wide and narrow."""

import shutil
import subprocess
from pathlib import Path

import matplotlib.image
import pytest

from builders_report import stored_story
from kvcliff.report.write import ReportOptions, write_report

RUN_ID = "night_load-12345678"
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "report"
    written = write_report(
        stored_story(RUN_ID), RUN_ID, folder, options=ReportOptions(is_self_contained=True)
    )
    assert written.html is not None
    return written.html


@pytest.mark.parametrize("width", [1200, 400])
@pytest.mark.parametrize(("scheme", "is_dark"), [("1", False), ("0", True)])
def test_the_page_shows(page: Path, tmp_path: Path, width: int, scheme: str, is_dark: bool) -> None:
    shot = tmp_path / "shot.png"
    subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--window-size={width},1600",
            f"--screenshot={shot}",
            page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=True,
    )
    pixels = matplotlib.image.imread(shot)[:, :, :3]
    assert pixels.shape[1] == width
    ground = pixels[2, 2].mean()
    assert (ground < 0.2) == is_dark
    # Text, figure and tables: a good part of the page is not its ground.
    assert (abs(pixels - pixels[2, 2]).max(axis=2) > 0.2).mean() > 0.03
