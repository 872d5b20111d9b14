"""A made survey of three questions with a common cause and a few gaps, for tests of benchmarks."""

from __future__ import annotations

import numpy as np
import pandas as pd


def small_survey(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    trait = rng.normal(size=n)
    found = pd.DataFrame({
        "fan": np.where(trait + rng.normal(size=n) > 0, "yes", "no"),
        "trust": np.asarray(["none", "some", "a lot"])[np.digitize(trait + rng.normal(size=n), [-0.5, 0.5])],
        "age": np.round(40 + 10 * trait + 5 * rng.normal(size=n)),
    })  # fmt: skip
    return found.mask(rng.random(found.shape) < 0.05)
