"""The pictures of the README and the documentation: the page of the demo in Chromium.

Run with `python docs/make_images.py` from the repository, after `make test-browser`, which installs what it needs. It
writes docs/images. With `--page report.html` it takes the pictures of a page that is there already, with
`--model m.thurbo` that of the explorer with a model of the bundled survey that is there already, with `--schema`
that of the page that corrects a schema.
"""

from __future__ import annotations

import math
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import expect, sync_playwright
from tests.browser.conftest import FLAGS
from tests.browser.install import browser

import thurbo as tb
from thurbo.app import demo
from thurbo.app.editor import Editor
from thurbo.app.explorer import Session
from thurbo.app.server import Server

IMAGES = Path(__file__).parent / "images"
SURVEY = "religion-survey.csv"  # of tests/data/surveys
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


def take_explorer(model: tb.TBM) -> None:
    """A group that is selected on the map of the explorer."""
    session = Session(model, tb.datasets.load_starwars(everything=True)[0], title="Star Wars survey")
    server = Server(session)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        tab = opened.new_page(viewport={"width": 1280, "height": 860})
        tab.goto(server.address)
        expect(tab.locator("#status")).to_contain_text("rows", timeout=60_000)
        box = tab.locator("#map").bounding_box() or {}
        turns = [2 * math.pi * k / 10 for k in range(11)]
        shape = [(0.72 + 0.2 * math.cos(turn), 0.45 + 0.3 * math.sin(turn)) for turn in turns]
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in shape]
        tab.mouse.move(*places[0])
        tab.mouse.down()
        for place in places[1:]:
            tab.mouse.move(*place, steps=3)
        tab.mouse.up()
        expect(tab.locator("#status")).to_contain_text("Group of", timeout=60_000)
        tab.screenshot(path=IMAGES / "explorer.png")
        opened.close()
    server.shutdown()
    server.server_close()


def take_editor() -> None:
    """The first question to check of a raw survey on the page that corrects a schema."""
    data = Path(__file__).parents[1] / "tests" / "data" / "surveys" / SURVEY
    frame, schema = tb.read(data)
    server = Server(Editor(schema, frame, data.with_suffix(".toml").relative_to(data.parent), title=SURVEY))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        tab = opened.new_page(viewport={"width": 1200, "height": 780})
        tab.goto(server.address)
        expect(tab.locator("#status")).to_contain_text("rows")
        tab.screenshot(path=IMAGES / "editor.png")
        opened.close()
    server.shutdown()
    server.server_close()


def main() -> None:
    """Run the demo, or take what is named, and photograph it."""
    if "--page" in sys.argv:
        take(Path(sys.argv[sys.argv.index("--page") + 1]))
    if "--model" in sys.argv:
        take_explorer(tb.TBM.load(sys.argv[sys.argv.index("--model") + 1]))
    if "--schema" in sys.argv or len(sys.argv) == 1:
        take_editor()
    if len(sys.argv) > 1:
        return
    frame, schema = tb.datasets.load_starwars(everything=True)
    take_explorer(tb.TBM(schema, random_state=0).fit(frame))
    with tempfile.TemporaryDirectory() as folder:
        take(demo.run(output=Path(folder) / "report.html").page)


if __name__ == "__main__":
    main()
