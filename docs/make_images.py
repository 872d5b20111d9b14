"""The pictures of the README and the documentation: the page of the demo in Chromium.

Run with `python docs/make_images.py` from the repository, after `make test-browser`, which installs what it needs. It
writes docs/images. With `--page report.html` it takes the pictures of a page that is there already.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import sync_playwright
from tests.browser.conftest import FLAGS
from tests.browser.install import browser

from thurbo import demo

IMAGES = Path(__file__).parent / "images"
# Name, size, colours, and the section at the top of the picture.
SHOTS = (
    ("report", (1280, 860), "light", "findings"),
    ("report-segments", (1280, 760), "light", "segments"),
    ("report-relations", (1280, 820), "light", "relations"),
    ("report-map", (1280, 860), "dark", "map"),
    ("report-phone", (390, 844), "light", "findings"),
)


def take(page: Path) -> None:
    """Pictures of a page on the disk."""
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        for name, (width, height), colours, section in SHOTS:
            tab = opened.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
            tab.goto(page.resolve().as_uri())
            tab.add_style_tag(content="html { scroll-behavior: auto }") if section != "findings" else None
            if section != "findings":
                tab.locator(f"#{section}").evaluate("e => e.scrollIntoView()")
            tab.wait_for_timeout(300)
            tab.screenshot(path=IMAGES / f"{name}.png")
            tab.close()
        opened.close()


def main() -> None:
    """Run the demo, or take the page that is named, and photograph it."""
    if "--page" in sys.argv:
        take(Path(sys.argv[sys.argv.index("--page") + 1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        take(demo.run(output=Path(folder) / "report.html").page)


if __name__ == "__main__":
    main()
