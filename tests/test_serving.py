"""The service of docs/serving.md: a real server, and many clients at once."""

import json
import re
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import thurbo as tb

PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
CLIENTS, REQUESTS = 20, 6


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    table = {
        "age": np.round(40 + 10 * x),
        "fan": np.where(x + rng.normal(size=200) > 0, "yes", "no").astype(object),
        "trust": np.asarray(["low", "mid", "high"], object)[np.digitize(x + rng.normal(size=200), [-0.5, 0.5])],
    }
    schema = {
        "age": tb.Continuous(),
        "fan": tb.Binary(true="yes"),
        "trust": tb.Ordinal(levels=["low", "mid", "high"]),
    }
    return tb.TBM(schema, n_hidden=3, max_epochs=5, random_state=0).fit(table)


@pytest.fixture(scope="module")
def address(model, tmp_path_factory):
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    path = tmp_path_factory.mktemp("service") / "survey.thurbo"
    model.save(path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert '"survey.thurbo"' in code
    place = {"__name__": "service"}
    exec(compile(code.replace('"survey.thurbo"', repr(str(path))), str(PAGE), "exec"), place)
    server = uvicorn.Server(uvicorn.Config(place["app"], host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(200):
        if server.started:
            break
        time.sleep(0.05)
    (port,) = {socket.getsockname()[1] for each in server.servers for socket in each.sockets}
    yield f"http://127.0.0.1:{port}/chances"
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def asked(address, question, answers):
    body = json.dumps(answers).encode()
    request = urllib.request.Request(f"{address}/{question}", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["detail"]


def test_many_clients_get_what_predict_proba_says(model, address):
    rng = np.random.default_rng(1)
    people = [
        {"age": float(rng.integers(20, 70)), "fan": str(rng.choice(["yes", "no"]))} for _ in range(CLIENTS * REQUESTS)
    ]
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(lambda person: asked(address, "trust", person), people))
    assert {status for status, _ in found} == {200}
    table = {name: [person[name] for person in people] for name in people[0]} | {"trust": [None] * len(people)}
    expected = model.predict_proba(table, "trust")
    said = np.asarray([[answer[label] for label in ("low", "mid", "high")] for _, answer in found])
    np.testing.assert_allclose(said, expected, atol=1e-6)


def test_one_answer_counts_as_a_condition(model, address):
    status, said = asked(address, "fan", {"age": 61})
    nobody = {name: [None] for name in ("age", "fan", "trust")}
    expected = model.predict_proba(nobody, "fan", given={"age": 61})[0]
    assert status == 200
    np.testing.assert_allclose(list(said.values()), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("question", "answers", "words"),
    [
        ("trust", {"fan": "perhaps"}, ["fan", "perhaps"]),
        ("trust", {"shoes": 43}, ["shoes"]),
        ("mood", {"age": 30}, ["mood"]),
        ("age", {"fan": "yes"}, ["age"]),
        ("trust", {"age": "old"}, ["age", "old"]),
    ],
)
def test_what_cannot_be_answered_is_said(address, question, answers, words):
    status, detail = asked(address, question, answers)
    assert status == 422
    assert all(word in detail for word in words)
