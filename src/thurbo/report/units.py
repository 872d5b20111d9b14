"""What each hidden unit means, read off the data: how answers differ between respondents with it on and off.

Every respondent counts on both sides, weighted by P(h_k = 1 | e) and its complement: no threshold is drawn.
Each difference is said as a share of respondents ("78 % at least Somewhat, against 31 %"), beside the means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thurbo.report.answers import Answers, FloatArray

# Fewer respondents than this on either side, by weight, and a difference is an anecdote.
_FEWEST = 5.0
# Differences below a tenth of a standard deviation are not worth a reader's line.
_SMALLEST = 0.1


def describe_units(
    answers: Sequence[Answers], on: FloatArray, weights: FloatArray, site_names: Sequence[str], top: int = 4
) -> list[dict[str, Any]]:
    """One record per hidden unit, most widely shared first: its share, its telling answers, its weights."""
    lines = [line for a in answers for line in a.lines]
    names = {line.site: line.name for line in lines if line.site}
    units = []
    for k in range(on.shape[1]):
        effects = []
        for line in lines:
            effect = _effect(line, on[:, k])
            if effect is not None:
                effects.append(effect | {"weight": _weight(line, weights[:, k], site_names)})
        telling = sorted(
            (e for e in effects if abs(e["standardised"]) >= _SMALLEST), key=lambda e: -abs(e["standardised"])
        )
        up = [e for e in telling if e["standardised"] > 0][:top]
        down = [e for e in telling if e["standardised"] < 0][:top]
        units.append(
            {
                "unit": k + 1,
                "share": float(np.mean(on[:, k])) if len(on) else 0.0,
                "up": up,
                "down": down,
                "words": _headline(up, down),
                "strength": max((abs(e["standardised"]) for e in telling), default=0.0),
                "weights": [
                    {"site": names.get(str(site), str(site)), "weight": float(w)}
                    for site, w in zip(site_names, weights[:, k], strict=True)
                ],
            }
        )
    return sorted(units, key=lambda unit: -unit["share"])


def _effect(answers: Answers, on: FloatArray) -> dict[str, Any] | None:
    """The difference one unit makes to one column; None where there is too little to go by."""
    observed = answers.observed
    values, p = answers.values[observed], on[observed]
    if len(values) < 2 or min(p.sum(), (1 - p).sum()) < _FEWEST or values.std() == 0:
        return None
    mean_on, mean_off = float(np.average(values, weights=p)), float(np.average(values, weights=1 - p))
    statement, holds = _statement(answers, values, p)
    share_on, share_off = float(np.average(holds, weights=p)), float(np.average(holds, weights=1 - p))
    return {
        "column": answers.name,
        "kind": answers.kind,
        "statement": statement,
        "share_on": share_on,
        "share_off": share_off,
        "mean_on": mean_on,
        "mean_off": mean_off,
        "difference": mean_on - mean_off,
        "standardised": (mean_on - mean_off) / float(values.std()),
        "words": f"{answers.name}: {percent(share_on)} {statement}, against {percent(share_off)}",
    }


def _statement(answers: Answers, values: FloatArray, p: FloatArray) -> tuple[str, NDArray[np.bool_]]:
    """A statement about the answer, and where it holds: for a scale, the cut that tells on from off best."""
    if not answers.labels:
        middle = float(np.median(values))
        return f"above {middle:.4g}", values > middle
    n_levels = len(answers.labels)
    if n_levels == 2:
        return answers.labels[1], values >= 1

    def gap(cut: int) -> float:
        holds = values >= cut
        return abs(float(np.average(holds, weights=p)) - float(np.average(holds, weights=1 - p)))

    cut = max(range(1, n_levels), key=gap)
    label = answers.labels[cut]
    return (label if cut == n_levels - 1 else f"at least {label}"), values >= cut


def _weight(line: Answers, weights: FloatArray, site_names: Sequence[str]) -> float:
    """Weight of the site that the answer is about."""
    own = line.site or line.name
    return next((float(w) for site, w in zip(site_names, weights, strict=True) if str(site) == own), 0.0)


def _headline(up: Sequence[dict[str, Any]], down: Sequence[dict[str, Any]]) -> str:
    parts = []
    if up:
        parts.append("higher on " + _listing([_subject(e) for e in up[:3]]))
    if down:
        parts.append("lower on " + _listing([_subject(e) for e in down[:3]]))
    words = "; ".join(parts) or "no answer differs enough to tell"
    return words[0].upper() + words[1:]


def _subject(effect: Mapping[str, Any]) -> str:
    """What is higher or lower: the column, with its upper value where that is no plain yes."""
    named = effect["kind"] == "binary" and effect["statement"].lower() not in {"yes", "true", "1"}
    return f"{effect['column']} ({effect['statement']})" if named else str(effect["column"])


def _listing(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def percent(share: float | None) -> str:
    """A share of one as a percentage without false precision."""
    if share is None:
        return "–"
    if 0 < share < 0.005:
        return "<1\u00a0%"
    if 0.995 <= share < 1:
        return ">99\u00a0%"
    return f"{100 * share:.0f}\u00a0%"
