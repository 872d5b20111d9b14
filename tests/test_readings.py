"""§5 What members of a population are asked: some rows, rows without some answers, and programs compiled ahead."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import thurbo as tb
from thurbo.fit import fitting, members, population
from thurbo.latent import packing
from thurbo.predict import model
from thurbo.predict import moments as distributions
from thurbo.predict.member import MemberQuery
from thurbo.predict.moments import How
from thurbo.table.io.frames import as_table

N = 240


@cache
def frame() -> pd.DataFrame:
    """Answers with a common cause; two of them are missing together."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=N)
    found: dict[str, Any] = {f"q{i}": np.digitize(common + rng.normal(size=N), [-0.5, 0.7]) for i in range(4)}
    found["party"] = np.asarray(list("abc"))[np.digitize(common + rng.normal(size=N), [-0.3, 0.3])]
    gone = rng.random((N, 5)) < 0.1
    gone[:, :2] |= (rng.random(N) < 0.3)[:, None]
    return pd.DataFrame(found).mask(gone)


@cache
def fitted() -> tb.TBM:
    return tb.TBM(members=2, max_epochs=5, random_state=0, verbose=False).fit(frame())


def question(member: int) -> MemberQuery:
    """The whole table, put to one member."""
    own, table = fitted().model_.members[member], as_table(frame())
    blocks = own.schema.compile(table)
    evidence = packing.pack(blocks.values(), "marginalize").on_host()
    return MemberQuery(own.params, own.schema, blocks, evidence, How(method="mean-field", n_steps=5))


def test_without_dependence_all_rows_are_predicted_like_one() -> None:
    found = question(0)
    assert not found._is_independent
    params = found.params._replace(weights=0 * found.params.weights, loadings=0 * found.params.loadings)
    free = MemberQuery(params, found.schema, found.blocks, found.evidence, found.how)
    assert free._is_independent
    assert free.known is not None
    for one, other in zip(free.known[:2], free.moments(free.evidence, np.zeros(0, np.int64))[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_reading_without_hidden_answers_has_the_shape_of_one_with_some() -> None:
    """Members go on training with all answers by the program that they were trained with."""
    whole, rng = question(1), np.random.default_rng(1)
    read = {"given": fitting.Data(whole.schema, whole.blocks, whole.evidence, np.ones(N))}
    masked = {name: rng.random(N) < 0.5 for name in ("q0", "party")}
    rests = [population.without_answers(read, each, "marginalize") for each in (masked, {})]
    some, none = (each["given"].evidence.buckets for each in rests)
    assert jax.tree.structure(some) == jax.tree.structure(none)
    np.testing.assert_array_equal(none[0].observed, whole.evidence.buckets[0].observed)
    assert some[0].observed.sum() < none[0].observed.sum()


def test_idle_cores_compile_what_members_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs of the questions are there when the members are weighed; without idle cores none are."""
    counts: dict[bool, list[int]] = {}
    weigh = population._weigh
    monkeypatch.setattr(distributions.all_moments, "_is_kept", False)  # traces on disk, again when the test is over
    for is_idle in (False, True):
        distributions.all_moments.clear_cache()
        monkeypatch.setattr(members, "n_cores", lambda is_idle=is_idle: 8 if is_idle else 2)
        monkeypatch.setattr(members, "at_once", lambda n, devices=None: 2)
        own = counts[is_idle] = []

        def counted(*given: Any, own: list[int] = own) -> Any:
            own.append(distributions.all_moments.n_compiled)
            return weigh(*given)

        monkeypatch.setattr(population, "_weigh", counted)
        tb.TBM(members=2, max_epochs=2, random_state=0, verbose=False).fit(frame())
        own.append(distributions.all_moments.n_compiled)
    assert counts[False][0] == 0
    assert counts[True][0] == counts[True][1] == counts[False][1] > 0
    assert members.largest_size([model.MemberSettings(3, 0, 0.0), model.MemberSettings(0, 4, 0.0)]) == (3, 4)
