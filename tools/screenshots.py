"""Pictures of the demo report for the documentation: `python tools/screenshots.py` (needs playwright, chromium)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from shrink_images import shrink

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
IMAGES = Path(__file__).parent.parent / "docs" / "images"


def main() -> None:
    """Make the report, take the pictures."""
    from abstain.cli import cli

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page_file = Path(folder) / "demo.html"
        cli(["demo", "--data", "digits", "-o", str(page_file)], standalone_mode=False)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1120, "height": 1180})
        page.goto(page_file.as_uri())
        page.wait_for_selector("#curve-chart path.line")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report-curves.png")
        page.add_style_tag(content="nav { position: static !important; }")
        page.locator("#line").scroll_into_view_if_needed()
        page.locator("#line").screenshot(path=IMAGES / "report-threshold.png")
        page.locator("#parts").screenshot(path=IMAGES / "report-groups.png")
        page.locator("#theme").click()
        page.wait_for_timeout(500)
        page.set_viewport_size({"width": 1120, "height": 760})
        page.evaluate("document.getElementById('scores').scrollIntoView({behavior: 'instant'})")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report-dark.png")
        browser.close()
    for path in sorted(IMAGES.glob("report-*.png")):
        shrink(path)
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
