"""
Censored numbers and intervals
==============================

Some numbers are only partly known: "still a member after 12 months", "between 20,000 and 40,000". They are used as they
are: as inequalities.
"""

# %%
# Made data: months until a customer leaves, observed for at most 12 months, and an income that people gave as a range.
# Satisfied customers stay longer, and so do customers with a high income.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import thurbo as tb

rng = np.random.default_rng(0)
n = 600
satisfied = rng.integers(1, 5, n)
income = np.exp(10.3 + 0.4 * rng.normal(size=n))
months = np.exp(1.0 + 0.5 * satisfied + 0.6 * (np.log(income) - 10.3) + 0.5 * rng.normal(size=n))
bands = np.array([0, 20_000, 30_000, 40_000, 60_000, np.inf])
band = np.digitize(income, bands)
frame = pd.DataFrame(
    {
        "satisfied": satisfied,
        "months": np.minimum(months, 12).round(1),
        "left": np.where(months < 12, "yes", "no"),
        "income_from": bands[band - 1],
        "income_to": bands[band],
    }
)
print(frame.head())
print(f"{(frame['left'] == 'no').mean():.0%} of the customers are still there after 12 months.")

# %%
# ``Censored`` reads the months of those who have not left as "at least 12"; ``Bounded`` reads two columns as an
# interval.

schema = tb.Schema(
    {
        "satisfied": tb.Ordinal([1, 2, 3, 4]),
        "months": tb.Censored(event="left", transform="log", highest=200),
        "income": tb.Bounded(lower="income_from", upper="income_to"),
    }
)
model = tb.TBM(schema, n_hidden=0, n_factors=2, max_epochs=60, random_state=0).fit(frame)

# %%
# The median number of months by satisfaction: of the model, of the true months, and of the table if "at least 12" is
# taken as 12.

empty = pd.DataFrame({name: [None] * 4 for name in frame}).assign(satisfied=[1, 2, 3, 4])
predicted = model.predict(empty, "months", statistic="median")["months"].astype(float).to_numpy()
true = [np.median(months[satisfied == level]) for level in range(1, 5)]
naive = [frame["months"][satisfied == level].median() for level in range(1, 5)]

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(range(1, 5), true, "o-", label="true")
axes.plot(range(1, 5), predicted, "s--", label="model")
axes.plot(range(1, 5), naive, "x:", label="censoring ignored")
axes.set(xlabel="satisfied", ylabel="median months", xticks=range(1, 5))
axes.legend(frameon=False)
plt.show()

# %%
# Statements also work in queries: the income of people who stayed for more than three years.

given = {"months": tb.at_least(36)}
print(model.predict_interval(frame.head(3), "income", level=0.8, given=given))
