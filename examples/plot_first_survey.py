"""
A first survey
==============

From a table of answers to a map of the people who gave them: what each question is, what the model finds that
the answers have in common, and where everybody stands.
"""

# %%
# The bundled survey asked 1,186 people about Star Wars. Its schema says what each column is: two values,
# ordered levels, or left out of the model, with the reason.

import matplotlib.pyplot as plt
import numpy as np

import thurbo as tb
from thurbo import report

frame, schema = tb.datasets.load_starwars()
print(schema)

# %%
# Six binary traits are to explain all answers. Gaps need no preparation: a missing cell says nothing.

model = tb.TBM(schema, n_hidden=6, max_epochs=60, random_state=0).fit(frame)

# %%
# What has each trait to do with the answers? The summary compares those who have it with those who do not,
# weighting everybody by the probability that they do.

summary = report.summary(model, frame, colour_by=["fan"])
for unit in summary["units"]:
    print(f"Unit {unit['unit']}, on in {unit['share']:.0%}: {unit['words']}")

# %%
# And where does everybody stand? Respondents whose traits are alike are close on the map.

layout = summary["map"]
x, y = np.array(layout["x"]), np.array(layout["y"])
(colouring,) = layout["colourings"]
group = np.array([-1 if g is None else g for g in colouring["groups"]])
figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
for code, label, colour in [(-1, "no answer", "0.8"), (0, "not a fan", "tab:orange"), (1, "fan", "tab:blue")]:
    axes.scatter(x[group == code], y[group == code], s=12, color=colour, label=label, linewidths=0)
axes.set_axis_off()
axes.set_aspect("equal")
axes.legend(frameon=False)
plt.show()

# %%
# How sure is the model that somebody is a fan, from everything else they said?

probability = model.predict_proba(frame, "fan")[:, 1]
known = frame["fan"].notna().to_numpy()
is_fan = (frame["fan"] == "Yes").to_numpy()
right = ((probability > 0.5) == is_fan)[known].mean()
majority = max(is_fan[known].mean(), 1 - is_fan[known].mean())
print(f"Right for {right:.0%} of those who answered; the majority answer for {majority:.0%}.")
