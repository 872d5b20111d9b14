"""§5 Whether the objective has settled at the end of training.

Idea: the learning rate falls to zero in the end, so the last epochs are flat in any fit, and a small rise while it
falls is usual. An objective that has not settled rises in both parts: at the full rate, where its last half is compared
with the quarter before it (the gain from the last doubling of training), and while the rate falls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

TOLERANCE = 0.01  # gain from the last doubling of training (nats per answer) that still counts as settled
WHILE_FALLING = TOLERANCE / 4  # the same for the rise while the rate falls, which is about a seventh of all training
NOISE = 2.0  # standard errors of a rise that are added to the tolerance
LEAST = 8  # fewest epochs at the full rate from which this can be told
STOPPED_IMPROVING = "the held-out score stopped improving"


def unsettled(history: Sequence[Mapping[str, Any]], n_full: int) -> str | None:
    """Why the objective has not settled, and what to do; None if it has. The rate falls after `n_full` epochs.

    Held-out scores count where there are enough of them, otherwise the training objective. A fit whose held-out score
    stopped improving has settled.
    """
    if any(str(record.get("event", "")).startswith(STOPPED_IMPROVING) for record in history):
        return None
    n = len(history)
    if n_full < LEAST:
        return too_few(n)
    name = "held_out" if sum("held_out" in record for record in history[:n_full]) >= LEAST else "objective"
    epoch, value = np.asarray([(record["epoch"], record[name]) for record in history if name in record], np.float64).T
    falling = (epoch - n_full) / max(n - n_full, 1)  # 0 where the rate begins to fall, 1 at the end
    rises = [
        _rise(value, (epoch > n_full // 4) & (epoch <= n_full // 2), (epoch > n_full // 2) & (epoch <= n_full)),
        _rise(value, (falling > 0.2) & (falling <= 0.4), falling > 0.6),
    ]
    tolerances = (TOLERANCE, WHILE_FALLING)
    if any(rise <= least + NOISE * error for (rise, error), least in zip(rises, tolerances, strict=True)):
        return None
    what = "held-out score" if name == "held_out" else "objective"
    rising = f"the last doubling of training raised it by {rises[0][0]:.3f} nats per answer"
    remedy = f"more epochs may give a better model, for example max_epochs={2 * n}"
    return f"the {what} had not settled after {_epochs(n)}: {rising}; {remedy}"


def too_few(n: int) -> str:
    """That n epochs cannot show whether the objective has settled, and what to do."""
    few = f"{_epochs(n)} {'is' if n == 1 else 'are'} too few to tell whether the objective has settled"
    return f"{few}; give more, max_epochs={2 * LEAST} or above"


def _epochs(n: int) -> str:
    return f"{n} epoch{'s' * (n != 1)}"


def _rise(value: np.ndarray, early: np.ndarray, late: np.ndarray) -> tuple[float, float]:
    """The mean of `late` values minus that of `early` ones, and its standard error; infinite if there are none."""
    if not early.any() or not late.any():
        return np.inf, 0.0
    # From successive differences, which hardly contain the trend.
    noise = float(np.sqrt(np.square(np.diff(value[early.argmax() :])).mean() / 2))
    return float(value[late].mean() - value[early].mean()), noise * float(np.sqrt(1 / early.sum() + 1 / late.sum()))
