"""The explorer without a browser: answers against the table and the model's queries, and what its server refuses."""

from __future__ import annotations

import csv
import http.client
import io
import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from tests.known import MEDIA, PARTIES, TRUST, known_members, known_model
from thurbo.app import server as served
from thurbo.app.explorer import Session
from thurbo.app.server import Server
from thurbo.errors import ThurboError

N = 90


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    drawn = known_model().sample(N, random_state=0)
    return drawn.mask(np.random.default_rng(0).random(drawn.shape) < 0.1)


@pytest.fixture(scope="module")
def session(frame: pd.DataFrame) -> Session:
    return Session(known_model(), frame, title="Known")


def empty(frame: pd.DataFrame, **answers: Any) -> pd.DataFrame:
    row = pd.DataFrame({name: [None] for name in frame}, dtype=object)
    return row.assign(**{name: [value] for name, value in answers.items()})


def by_name(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in found}


def test_the_survey_has_every_question_and_row(session: Session, frame: pd.DataFrame) -> None:
    found = json.loads(json.dumps(session.survey(), allow_nan=False))
    questions = by_name(found["questions"])
    assert list(questions) == list(frame)
    assert questions["trust"]["labels"] == list(TRUST)
    assert (questions["trust"]["fillable"], questions["media"]["fillable"]) == (True, False)
    assert len(found["x"]) == len(found["y"]) == len(found["segment"]) == N
    assert set(found["segment"]) <= {each["number"] for each in found["segments"]}


def test_a_group_is_compared_with_the_rest(session: Session, frame: pd.DataFrame) -> None:
    rows = list(range(0, N, 3))
    found = session.group(rows)
    assert found["n"] == len(rows)
    inside = np.isin(np.arange(N), rows)
    questions = by_name(found["questions"])
    for label, bar in zip(TRUST, questions["trust"]["bars"], strict=True):
        assert bar["label"] == label
        for key, where in (("inside", inside), ("rest", ~inside)):
            assert bar[key] == pytest.approx((frame["trust"][where].dropna() == label).mean())
    for option, bar in zip(MEDIA, questions["media"]["bars"], strict=True):
        said = frame["media"][inside].dropna()
        assert bar["inside"] == pytest.approx(np.mean([option in cell for cell in said]))
    assert questions["height"]["inside"] == pytest.approx(frame["height"][inside].median())
    order = [each["distance"] for each in found["questions"]]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("rows", [[], list(range(N)), [N], [-1], ["0"], [0.5], "all", None, [True] * (N + 1)])
def test_odd_groups_are_refused_in_a_sentence(session: Session, rows: Any) -> None:
    with pytest.raises(ThurboError):
        session.group(rows)


def test_pins_are_predictions_under_conditions(session: Session, frame: pd.DataFrame) -> None:
    model, pins = known_model(), ["member = yes", "height >= 175", "issues: tax > health"]
    found = session.pinned(pins)
    assert found["pinned"] == ["height", "issues", "member"]
    questions = by_name(found["questions"])
    assert set(questions) == set(frame) - {"height", "issues", "member"}
    for name in ("trust", "party"):
        assert questions[name]["given"]["chance"] == pytest.approx(
            model.predict_proba(empty(frame), name, given=pins)[0], abs=1e-5
        )
        assert questions[name]["usual"]["chance"] == pytest.approx(model.predict_proba(empty(frame), name)[0], abs=1e-5)
    ends = model.predict_interval(empty(frame), "income", level=0.9, given=pins)[0]
    quantiles = questions["income"]["given"]["quantiles"]
    assert [quantiles[0], quantiles[-1]] == pytest.approx(ends, rel=1e-3)
    for odd in (["mood = high"], ["member = perhaps"], ["member = yes"] * 21, "member = yes", [3], ["x" * 600]):
        with pytest.raises(ThurboError):
            session.pinned(odd)  # type: ignore[arg-type]


def pin(name: str, relation: str, *values: str) -> dict[str, Any]:
    return {"name": name, "relation": relation, "values": list(values)}


PINS = [
    (pin("trust", "exactly", TRUST[1]), {"trust": TRUST[1]}),
    (pin("trust", "at least", TRUST[1]), {"trust": tb.at_least(TRUST[1])}),
    (pin("trust", "at most", TRUST[1]), {"trust": tb.at_most(TRUST[1])}),
    (pin("trust", "between", TRUST[1], TRUST[0]), {"trust": tb.between(TRUST[0], TRUST[1])}),
    (pin("party", "one of", *PARTIES[:2]), {"party": tb.one_of(*PARTIES[:2])}),
    (pin("party", "anything but", PARTIES[0]), {"party": tb.one_of(*PARTIES[1:])}),
    (pin("height", "between", "190", "170"), {"height": tb.between(170, 190)}),
    (pin("issues", "above", "tax", "health"), "issues: tax > health"),
    (pin("media", "selected", MEDIA[0]), {"media": {MEDIA[0]: True}}),
    (pin("media", "not selected", MEDIA[0]), {"media": {MEDIA[0]: False}}),
]


@pytest.mark.parametrize(("chosen", "given"), PINS, ids=lambda each: str(each["relation"]) if "name" in each else "")
def test_a_pin_of_the_page_is_a_condition_of_the_model(
    session: Session, frame: pd.DataFrame, chosen: dict[str, Any], given: Any
) -> None:
    assert chosen["relation"] in by_name(session.survey()["questions"])[chosen["name"]]["relations"]
    found = session.pinned([chosen])
    assert found["pinned"] == [chosen["name"]]
    expected = known_model().predict_proba(empty(frame), "member", given=given)[0]
    assert by_name(found["questions"])["member"]["given"]["chance"] == pytest.approx(expected, abs=1e-5)


def test_several_pins_of_one_question_hold_together(session: Session, frame: pd.DataFrame) -> None:
    pins = [pin("media", "selected", MEDIA[0]), pin("media", "not selected", MEDIA[1])]
    pins += [pin("height", "at least", "170"), "height <= 180"]
    found = by_name(session.pinned(pins)["questions"])["party"]["given"]["chance"]
    given = {"media": {MEDIA[0]: True, MEDIA[1]: False}, "height": tb.between(170, 180)}
    assert found == pytest.approx(known_model().predict_proba(empty(frame), "party", given=given)[0], abs=1e-5)


@pytest.mark.parametrize(
    "odd",
    [
        pin("mood", "exactly", "high"),
        pin("trust", "above", *TRUST[:2]),
        pin("trust", "between", TRUST[0]),
        pin("trust", "exactly", "much"),
        pin("trust", "one of"),
        pin("party", "anything but", *PARTIES),
        pin("height", "at least", "tall"),
        pin("height", "at least", "inf"),
        pin("issues", "above", "tax", "tax"),
        {"name": ["trust"], "relation": {}, "values": 3},
        {},
        3,
        None,
    ],
    ids=str,
)
def test_odd_pins_are_refused_in_a_sentence(session: Session, odd: Any) -> None:
    with pytest.raises(ThurboError):
        session.pinned([odd])
    with pytest.raises(ThurboError):
        session.pinned([pin("media", "selected", MEDIA[0]), pin("media", "not selected", MEDIA[0])])


def test_a_respondent_is_predicted_and_answers_are_left_out_one_by_one(session: Session, frame: pd.DataFrame) -> None:
    model, answers = known_model(), {"member": "yes", "trust": "some", "height": "181"}
    found = session.respondent(answers, "party")
    cells = {"member": "yes", "trust": "some", "height": 181.0}
    predicted = by_name(found["predicted"])
    assert set(predicted) == set(frame) - set(answers)
    whole = model.predict_proba(empty(frame, **cells), "party")[0]
    assert predicted["party"]["given"]["chance"] == pytest.approx(whole, abs=1e-5)
    assert len(found["moved"]) == 3
    for each in found["moved"]:
        rest = {name: cell for name, cell in cells.items() if name != each["name"]}
        without = model.predict_proba(empty(frame, **rest), "party")[0]
        assert (each["value"], each["without"]) == pytest.approx((whole.max(), without[whole.argmax()]), abs=1e-5)
    sizes = [abs(each["value"] - each["without"]) for each in found["moved"]]
    assert sizes == sorted(sizes, reverse=True)
    assert session.respondent({}, "height")["moved"] == []
    for odd in ({"mood": "high"}, {"trust": "much"}, {"height": "tall"}, {"height": "nan"}, {"media": "tv"}, [1]):
        with pytest.raises(ThurboError):
            session.respondent(odd, "party")  # type: ignore[arg-type]


def test_segments_are_exported_by_name(session: Session) -> None:
    labels = [1 + k % 3 for k in range(N)]
    text = session.export(labels, {"1": "old, wise", "2": "=cmd()", "3": "<b>"})
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["row", "segment"]
    assert [row[1] for row in rows[1:4]] == ["old, wise", "'=cmd()", "<b>"]
    assert len(rows) == N + 1
    for odd in (labels[:-1], None, "1"):
        with pytest.raises(ThurboError):
            session.export(odd, {})


def test_all_members_count(frame: pd.DataFrame) -> None:
    """The numbers of the page are those of `predict_proba`, and not those of the leading member."""
    model = known_members()
    session = Session(model, frame)
    pinned = by_name(session.pinned(["member = yes", "height >= 175"])["questions"])
    typed = by_name(session.respondent({"member": "yes", "height": "181"}, "party")["predicted"])
    rows = empty(frame, member="yes", height=181.0)
    for name in ("trust", "party"):
        expected = model.predict_proba(empty(frame), name, given=["member = yes", "height >= 175"])[0]
        assert pinned[name]["given"]["chance"] == pytest.approx(expected, abs=1e-5)
        assert pinned[name]["usual"]["chance"] == pytest.approx(model.predict_proba(empty(frame), name)[0], abs=1e-5)
        expected = model.predict_proba(rows, name)[0]
        assert typed[name]["given"]["chance"] == pytest.approx(expected, abs=1e-5)
        alone = known_model().predict_proba(rows, name, method="mean-field")[0]
        assert np.abs(expected - alone).max() > 0.005


@pytest.mark.slow
def test_not_asked_is_no_evidence_of_a_pin() -> None:
    """Empty cells of typed rows say nothing to any member; that a follow-up question has an answer says much."""
    rng, n = np.random.default_rng(0), 400
    seen = rng.random(n) < 0.7
    table = {
        "seen": np.where(seen, "yes", "no").tolist(),
        "likes": [("a" if u < 0.5 else "b") if s else None for s, u in zip(seen, rng.random(n), strict=True)],
        "knows": [("a" if u < 0.5 else "b") if s else None for s, u in zip(seen, rng.random(n), strict=True)],
    }
    schema = {"seen": tb.Binary(true="yes"), "likes": tb.Categorical(["a", "b"]), "knows": tb.Categorical(["a", "b"])}
    model = tb.TBM(schema, members=2, max_epochs=8, random_state=0, verbose=False).fit(table)
    session = Session(model, table)
    found = by_name(session.pinned(["likes = a"])["questions"])["seen"]
    assert found["usual"]["chance"][1] == pytest.approx(seen.mean(), abs=0.01)
    assert found["given"]["chance"][1] > 0.99  # only who has seen it was asked
    typed = by_name(session.respondent({"likes": "a"}, "seen")["predicted"])["seen"]
    assert typed["given"]["chance"] == pytest.approx(found["given"]["chance"], abs=1e-6)
    nobody = {name: [None] for name in table}
    for row, given in ((nobody, "likes = a"), (nobody | {"likes": ["a"]}, None)):
        expected = model.predict_proba(row, "seen", given=given, gaps="ignorable")[0]
        assert found["given"]["chance"] == pytest.approx(expected, abs=1e-6)


# ---- lists


FILMS = [f"{kind} {k}" for kind in ("war", "love") for k in range(6)]


def rated(by: str) -> tuple[tb.TBM, dict[str, Any]]:
    """Two kinds of people, each of whom likes one kind of film; every row has eight films."""
    rng, cells, kinds = np.random.default_rng(0), [], []
    for row in range(60):
        kinds.append("war" if row % 2 else "love")
        score = {film: (5 if film.startswith(kinds[-1]) else 2) - int(rng.integers(2)) for film in FILMS}
        chosen = {film: score[film] for film in rng.permutation(FILMS)[:8].tolist()}
        cells.append(sorted(chosen, key=lambda film: -chosen[film]) if by == "order" else chosen)
    column = tb.Ratings(by=by, **({"listed": True} if by == "order" else {}))  # type: ignore[arg-type]
    table = {"films": cells, "kind": kinds}
    schema = {"films": column, "kind": tb.Categorical(["war", "love"])}
    return tb.TBM(schema, n_hidden=2, n_factors=0, members=1, max_epochs=40, random_state=0, verbose=False).fit(
        table
    ), table


@pytest.mark.parametrize("by", ["levels", "numbers", "order"])
def test_ratings_change_recommendations(by: str) -> None:
    model, table = rated(by)
    session = Session(model, table)
    (told,) = session.survey()["lists"]
    assert (told["name"], told["by"], sorted(told["items"])) == ("films", by, sorted(FILMS))
    ratings = [[film, None if by == "order" else score] for film, score in (("war 0", "5"), ("love 0", "1"))]
    ratings += [["war 1", None if by == "order" else "5"]] if by != "order" else []
    found = session.recommend("films", ratings)
    own = [item for item, _ in ratings] if by == "order" else {item: int(score) for item, score in ratings}
    best = model.rank({"films": [own], "kind": [None]}, top=3)
    assert [each["item"] for each in found["best"][:3]] == list(best["item"])
    assert found["first"] == found["best"][0]["item"]
    assert all(each["item"].startswith("war") for each in found["best"][:3])
    assert len(found["moved"]) == len(ratings)
    before = {each["item"]: each["usual"] for each in session.recommend("films", [])["best"]}
    assert found["best"][0]["usual"] == pytest.approx(before[found["first"]], abs=1e-6)
    assert found["best"][0]["value"] > found["best"][0]["usual"]
    assert session.recommend("films", [], {"kind": "love"})["first"].startswith("love")
    group = by_name(session.group(list(range(1, 60, 2)))["questions"])["films"]
    assert all((bar["inside"] > bar["rest"]) == bar["label"].startswith("war") for bar in group["bars"])
    for odd in ([["war 0"]], [["Heat", "5"]], [["war 0", "5"]] * 31, "war 0", None, [[3, "5"]]):
        with pytest.raises(ThurboError):
            session.recommend("films", odd)
    for name in ("kind", "music", None, 3):
        with pytest.raises(ThurboError):
            session.recommend(name, [])
    if by != "order":
        for score in ("much", None, "nan"):
            with pytest.raises(ThurboError):
                session.recommend("films", [["war 0", score]])


# ---- the server


@pytest.fixture(scope="module")
def running(session: Session) -> Iterator[Server]:
    server = Server(session)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def call(
    server: Server, method: str, part: str, body: bytes | None = None, token: str | None = None, **headers: str
) -> tuple[int, Any, Any]:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    about = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    line.request(method, f"/{server.token if token is None else token}/{part}", body, about)
    answer = line.getresponse()
    text = answer.read()
    line.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(text) if is_json else text.decode(), answer.headers


def test_the_server_answers_its_page_and_its_questions(running: Server) -> None:
    assert running.address == f"http://127.0.0.1:{running.port}/{running.token}/"
    assert len(running.token) >= 20
    status, page, headers = call(running, "GET", "")
    assert status == 200
    assert "<title>thurbo explorer</title>" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert call(running, "GET", "explorer.js")[0] == call(running, "GET", "explorer.css")[0] == 200
    status, found, _ = call(running, "POST", "survey", b"{}")
    assert (status, found["title"]) == (200, "Known")
    status, found, _ = call(running, "POST", "pin", json.dumps({"pins": ["member = yes"]}).encode())
    assert (status, found["pinned"]) == (200, ["member"])
    rows = json.dumps({"rows": [0, 1, 2]}).encode()
    assert call(running, "POST", "group", rows)[1]["n"] == 3


@pytest.mark.parametrize(
    ("method", "part", "body", "settings", "expected"),
    [
        ("GET", "", None, {"token": "wrong"}, 404),
        ("POST", "survey", b"{}", {"token": ""}, 404),
        ("POST", "survey", b"{}", {"token": "wröng".encode().hex()}, 404),
        ("GET", "../../etc/passwd", None, {}, 404),
        ("GET", "secret", None, {}, 404),
        ("POST", "secret", b"{}", {}, 404),
        ("POST", "survey", b"{}", {"Host": "evil.example"}, 404),
        ("POST", "survey", b"{}", {"Content_Type": "text/plain"}, 415),
        ("POST", "survey", b"{}", {"Content_Length": "99999999"}, 413),
        ("POST", "survey", b"[]", {}, 400),
        ("POST", "survey", b"{not json", {}, 400),
        ("POST", "survey", b"[" * 100_000, {}, 400),
        ("POST", "group", b'{"rows": "all"}', {}, 400),
        ("POST", "pin", b'{"pins": ["mood = high"]}', {}, 400),
        ("POST", "respondent", b'{"answers": 3}', {}, 400),
        ("POST", "export", b"{}", {}, 400),
        ("POST", "survey", b"{}", {"Content_Length": "\u00b2"}, 413),
        ("POST", "respondent", b'{"answers": {"height": 1%s}}' % (b"0" * 400), {}, 400),
        ("POST", "respondent", b'{"answers": {"party": ["Red"]}}', {}, 400),
        ("POST", "respondent", b'{"answers": {}, "target": ["party"]}', {}, 400),
        ("POST", "pin", b'{"pins": ["height >= 1%s"]}' % (b"0" * 400), {}, 400),
        (
            "POST",
            "pin",
            b'{"pins": [{"name": "height", "relation": "at least", "values": [1%s]}]}' % (b"0" * 400),
            {},
            400,
        ),
    ],
)
def test_the_server_refuses_what_is_not_its_business(
    running: Server, method: str, part: str, body: bytes | None, settings: dict[str, str], expected: int
) -> None:
    status, found, _ = call(running, method, part, body, **settings)
    assert status == expected
    assert "Traceback" not in json.dumps(found)
    assert found["error"]


def test_an_unexpected_failure_is_a_sentence(running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(Session, "survey", fail)
    status, found, _ = call(running, "POST", "survey", b"{}")
    assert status == 500
    assert "ZeroDivisionError" in found["error"]
    assert "secret" not in found["error"]


def test_many_connections_wait_to_be_accepted(session: Session) -> None:
    server = Server(session)
    lines = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=2) for _ in range(40)]
    for line in lines:
        line.connect()  # the server does not accept yet
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in lines:
        line.timeout = 30
        line.request("GET", f"/{server.token}/explorer.css")
    assert [line.getresponse().status for line in lines] == [200] * len(lines)
    for line in lines:
        line.close()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("part", ["survey", "secret"])
def test_a_client_that_leaves_is_no_failure(session: Session, capsys: pytest.CaptureFixture[str], part: str) -> None:
    server = Server(session)
    line = socket.create_connection(("127.0.0.1", server.port))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leave at once, with a reset
    head = f"POST /{server.token}/{part} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    line.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
    request, address = server.get_request()
    line.close()
    server.process_request_thread(request, address)
    server.server_close()
    assert capsys.readouterr().err == ""


def test_a_failure_of_the_server_is_printed(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(session)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        server.handle_error(None, ("127.0.0.1", 1))
    server.server_close()
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(running: Server, session: Session) -> None:
    with pytest.raises(ThurboError, match="another --port"):
        Server(session, port=running.port)
    assert served.MOST_BYTES < 10_000_000
