"""
A first survey
==============

From a table of answers to predictions and to a map of the respondents.
"""

# %%
# The bundled survey asked 1,186 people about Star Wars. Its schema gives the type of each column: yes or no, ordered
# levels, or not in the model, with the reason.

import matplotlib.pyplot as plt

import thurbo as tb

frame, schema = tb.datasets.load_starwars()
print(schema)

# %%
# Six hidden units are enough for a first look, and quick. ``tb.TBM(schema)`` without settings fits several models of
# different sizes and weighs them by held-out answers: it predicts better and takes longer. Missing answers need no
# preparation.

model = tb.TBM(schema, n_hidden=6, max_epochs=60, random_state=0).fit(frame)

# %%
# How probable is it that a person is a fan, given all other answers of the person? The answer itself is not used.

probability = model.predict_proba(frame, "fan")[:, 1]
answered = frame["fan"].notna().to_numpy()
is_fan = (frame["fan"] == "Yes").to_numpy()
correct = ((probability > 0.5) == is_fan)[answered].mean()
majority = max(is_fan[answered].mean(), 1 - is_fan[answered].mean())
print(f"Correct for {correct:.0%} of those who answered; the more frequent answer is correct for {majority:.0%}.")

# %%
# The same under a condition, which replaces one answer of each person:

trek = model.predict_proba(frame, "fan", given="fan_star_trek = Yes")[:, 1]
no_trek = model.predict_proba(frame, "fan", given="fan_star_trek = No")[:, 1]
print(f"Mean probability for fans of Star Trek: {trek[answered].mean():.2f}, others: {no_trek[answered].mean():.2f}.")

# %%
# Similar respondents are close together on the map.

tb.plot.map(model, frame, "fan")
plt.show()

# %%
# What is a hidden unit about? The plot compares the answers of respondents in whom it is on with those of the others.

tb.plot.units(model, frame, 1)
plt.show()
