"""The code of the README and of the first pages runs from top to bottom, on fewer rows and with short fits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# Text of the page → text that takes less time.
SHORTER = {
    "random_state=0).fit(": "random_state=0, max_epochs=2, verbose=False).fit(",
    "max_epochs=5, random_state=0, max_epochs=2": "random_state=0, max_epochs=2",
    "max_epochs=20, random_state=0, max_epochs=2": "random_state=0, max_epochs=2",
    "train, test = frame[:900], frame[900:]": "train, test = frame[:90], frame[90:150]",
    "model.segments(frame,": "model.segments(test,",
    "frame.assign(": "test.assign(",
    "report.summary(model, frame,": "report.summary(model, train,",
    'frame, schema = tb.datasets.load_starwars()  # your data: frame, schema = tb.read("survey.sav")': (
        "frame, schema = tb.datasets.load_starwars(); frame = test = frame[:90]"
    ),
}
PAGES = (
    "README.md",
    pytest.param("docs/quickstart.md", marks=pytest.mark.slow),
    "docs/saving.md",
    pytest.param("docs/rankings.md", marks=pytest.mark.slow),
    pytest.param("docs/preferences.md", marks=pytest.mark.slow),
    pytest.param("docs/evaluation.md", marks=pytest.mark.slow),
)


def code(page: str) -> str:
    """The python blocks of a page, one after another."""
    text = "\n".join(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.S | re.M))
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    return text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(code(page), page, "exec"), names)
    if page == "docs/quickstart.md":
        filled = names["filled"][list(names["model"].schema_.modelled)]
        assert not filled[filled["knows_expanded_universe"] == "Yes"].isna().any().any()  # they were asked everything
        assert filled.loc[filled["seen_any"] == "No", "fan"].isna().all()
        assert len(names["html"]) > 10_000
        assert names["model"].n_epochs_ == 2


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
EVERY_PAGE = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if "gallery" not in path.parts
)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *EVERY_PAGE])
def test_links_lead_to_files(page: str) -> None:
    path = ROOT / page
    targets = [target for target in LINK.findall(path.read_text(encoding="utf-8")) if "://" not in target]
    assert not [target for target in targets if not (path.parent / target).exists()]


def test_the_readme_links_every_page() -> None:
    linked = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    of_reference = {page for page in EVERY_PAGE if page.startswith("docs/reference/")}  # which docs/api.md links
    assert set(EVERY_PAGE) - set(linked) <= {"docs/index.md"} | of_reference
