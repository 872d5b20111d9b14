"""§5 Whether the objective has settled at the end of training.

Idea: the learning rate falls to zero at the end, so the last epochs are flat in any fit. What matters is the part at
the full rate: did twice as many epochs there still help? Its last half is compared with the quarter before it. Their
difference is the gain from the last doubling of training, and about what another doubling would bring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TOLERANCE = 0.01  # gain from the last doubling (nats per answer) that still counts as settled
NOISE = 2.0  # standard errors of that gain that are added to the tolerance
LEAST = 8  # fewest epochs at the full rate from which this can be told
STOPPED_IMPROVING = "the held-out score stopped improving"


def unsettled(history: Sequence[Mapping[str, Any]], n_full: int) -> str | None:
    """Why the objective has not settled after `n_full` epochs at the full rate, and what to do; None if it has.

    Held-out scores count where there are enough of them, otherwise the training objective. A fit whose held-out score
    stopped improving has settled.
    """
    if any(str(record.get("event", "")).startswith(STOPPED_IMPROVING) for record in history):
        return None
    done = f"{len(history)} epoch{'s' * (len(history) != 1)}"
    if n_full < LEAST:
        few = f"{done} {'is' if len(history) == 1 else 'are'} too few to tell whether the objective has settled"
        return f"{few}; give more, max_epochs={2 * LEAST} or above"
    full = history[:n_full]
    name = "held_out" if sum("held_out" in record for record in full) >= LEAST else "objective"
    gain, error = _gain([(record["epoch"], record[name]) for record in full if name in record], n_full)
    if gain <= TOLERANCE + NOISE * error:
        return None
    what = "held-out score" if name == "held_out" else "objective"
    rising = f"the {what} had not settled after {done}: the last doubling of training raised it by {gain:.3f} nats"
    return f"{rising} per answer; more epochs may give a better model, for example max_epochs={2 * len(history)}"


def _gain(series: Sequence[tuple[int, float]], n_full: int) -> tuple[float, float]:
    """The mean of the last half minus the mean of the quarter before it, and its standard error."""
    epoch, value = np.asarray(series, np.float64).T
    value = value[epoch > n_full // 4]
    is_late = epoch[epoch > n_full // 4] > n_full // 2
    early, late = value[~is_late], value[is_late]
    if not len(early) or not len(late):
        return 0.0, 0.0
    # From successive differences, which hardly contain the trend.
    noise = float(np.sqrt(np.square(np.diff(value)).mean() / 2))
    return float(late.mean() - early.mean()), noise * float(np.sqrt(1 / len(early) + 1 / len(late)))
