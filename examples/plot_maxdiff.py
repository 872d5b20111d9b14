"""
MaxDiff: the best and the worst of those shown
==============================================

Which features of a phone matter most, and to whom?
"""

# %%
# Made data: each person sees four of six features five times, and marks the best and the worst. Half of the people care
# about the camera, the others about the battery.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import thurbo as tb

rng = np.random.default_rng(0)
features = ["camera", "battery", "price", "size", "brand", "colour"]
mean = np.array([0.5, 0.5, 1.0, 0.0, -0.5, -1.5])
lines = []
for person in range(80):
    own = mean + np.array([1.5, -1.5, 0, 0, 0, 0]) * (1 if person % 2 else -1)
    for task in range(5):
        shown = rng.permutation(6)[:4]
        utility = own[shown] + rng.gumbel(size=4)
        lines += [
            (person, task, features[i], x == utility.max(), x == utility.min())
            for i, x in zip(shown, utility, strict=True)
        ]
answers = pd.DataFrame(lines, columns=["person", "task", "feature", "best", "worst"])
print(answers.head(4))

# %%
# One row per person, with all tasks in one cell. One hidden unit can tell two groups of people apart.

table = tb.from_choices(answers, row="person", task="task", item="feature", best="best", worst="worst", name="phone")
model = tb.TBM(n_hidden=1, max_epochs=60, random_state=0).fit(table)

# %%
# Utilities of all features for each person. The two groups of people are found without being given.

utilities = model.rank(table, top=6, exclude_seen=False).pivot(index="row", columns="item", values="utility")[features]
cares_for_camera = np.arange(80) % 2 == 1
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(features, utilities[cares_for_camera].mean(), "o-", label="people who care about the camera")
axes.plot(features, utilities[~cares_for_camera].mean(), "s--", label="people who care about the battery")
axes.set(ylabel="mean utility")
axes.legend(frameon=False)
plt.show()

# %%
# The probability that a person prefers the camera to the battery, for the first four people:

print(model.prefers(table, "camera", "battery")[:4].round(2))
