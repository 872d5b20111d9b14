"""A page of the demo survey and one with hostile labels, and a browser to read them in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import thurbo as tb
from thurbo.app import demo, report

sync = pytest.importorskip("playwright.sync_api")

from tests.browser.install import browser as chromium  # noqa: E402
from tests.known import known_model  # noqa: E402

sync.expect.set_options(timeout=60_000)  # the first question of a kind compiles a program

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NASTY = "<script>window.hacked = 1</script>"
QUOTED = "\"><img src=x onerror='window.hacked = 1'>"


class Survey(NamedTuple):
    """A fitted survey and its page."""

    model: tb.TBM
    frame: Any
    page: Path


@pytest.fixture(scope="session")
def demo_survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """The survey of the demo with a small model."""
    frame, schema = tb.datasets.load_starwars(everything=False)
    model = tb.TBM(schema, n_hidden=3, n_factors=0, max_epochs=6, random_state=0, verbose=False)
    model.fit(demo.mask(frame, schema, 0))
    found = model.evaluate(frame, random_state=0, logistic=False)
    names = {"title": demo.TITLE, "rows_are": "respondents", "source": demo.SOURCE}
    page = tmp_path_factory.mktemp("pages") / "report.html"
    return Survey(model, frame, report.write(model, frame, page, held_out=found, **names))


@pytest.fixture(scope="session")
def nasty_survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """A survey whose names, labels and title are markup, with single rows on the page."""
    rng, n = np.random.default_rng(0), 200
    group = rng.integers(0, 2, n)
    labels = np.asarray([NASTY, QUOTED, "</script><b>bold</b>"], object)
    table = {f"{NASTY} {k}": labels[(group + rng.integers(0, 2, n)) % 3].tolist() for k in range(4)}
    table[QUOTED] = np.where(group == rng.integers(0, 3, n), "yes", "no").tolist()
    schema = tb.Schema({name: tb.Categorical() for name in table}, titles={QUOTED: f"Is it {NASTY}?"})
    model = tb.TBM(schema, n_hidden=2, n_factors=0, max_epochs=5, random_state=0, verbose=False).fit(table)
    page = tmp_path_factory.mktemp("pages") / "nasty.html"
    about = {"title": NASTY, "rows_are": QUOTED, "columns_are": NASTY, "source": NASTY, "rows": True, "test": False}
    return Survey(model, table, report.write(model, table, page, **about))


@pytest.fixture(scope="session")
def list_survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Ratings of films, one of them called like a script, by people who like war films or love films."""
    rng = np.random.default_rng(0)
    films = [f"{kind} {k}" for kind in ("war", "love") for k in range(8)] + [NASTY]
    cells = []
    for row in range(120):
        liked = "war" if row % 2 else "love"
        chosen = rng.permutation(films)[:9].tolist()
        cells.append({film: (4 if film.startswith(liked) else 2) + int(rng.integers(2)) for film in chosen})
    table = {"films": cells}
    schema = {"films": tb.Ratings()}
    model = tb.TBM(schema, n_hidden=2, n_factors=0, members=1, max_epochs=40, random_state=0, verbose=False).fit(table)
    found = model.evaluate(table, hide=0.3, random_state=0)
    page = tmp_path_factory.mktemp("pages") / "lists.html"
    return Survey(model, table, report.write(model, table, page, held_out=found, title="Films"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with sync.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield opened
        opened.close()


class Watched:
    """Pages of a browser, with everything that they complain about or ask for."""

    def __init__(self, browser: Any) -> None:
        self.browser, self.problems, self.requests, self.contexts = browser, list[str](), list[str](), list[Any]()

    def open(self, address: str, **settings: Any) -> Any:
        """A new page at this address, or at the file of this path."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(address)
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    """After the test, nothing has gone wrong in any of its pages."""
    found = Watched(browser)
    yield found
    found.close()
    assert found.problems == []


def serious(page: Any) -> list[str]:
    """What axe-core finds in a page that is serious or critical, as text."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


@pytest.fixture(scope="session")
def explored(demo_survey: Survey) -> Iterator[Any]:
    """The demo survey behind a running server."""
    yield from _running(demo_survey, "Star Wars")


@pytest.fixture(scope="session")
def explored_lists(list_survey: Survey) -> Iterator[Any]:
    """Ratings behind a running server."""
    yield from _running(list_survey, "Films")


@pytest.fixture(scope="session")
def explored_kinds() -> Iterator[Any]:
    """One question of each kind behind a running server."""
    model = known_model()
    yield from _running(Survey(model, model.sample(90, random_state=0), Path()), "Known")


def _running(survey: Survey, title: str) -> Iterator[Any]:
    from thurbo.app.explorer import Session
    from thurbo.app.server import Server

    server = Server(Session(survey.model, survey.frame, title=title))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
