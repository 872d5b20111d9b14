"""
Ratings and recommendations
===========================

Each person has rated a few of many films. Which films would they like?
"""

# %%
# A long table has one line per rating. The data are made: there are two tastes, and each user has rated eight of twenty
# films. Even film numbers please even users, odd ones odd users.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import thurbo as tb

rng = np.random.default_rng(0)
lines = [(user, film) for user in range(150) for film in rng.permutation(20)[:8]]
ratings = pd.DataFrame(lines, columns=["user", "film"])
taste = np.where(ratings["user"] % 2 == ratings["film"] % 2, 1.2, -1.2)
ratings["stars"] = np.clip(np.round(3 + taste + rng.normal(size=len(ratings))), 1, 5).astype(int)
ratings["film"] = "film " + ratings["film"].astype(str)
print(ratings.head())

# %%
# One row per user, with all ratings of the user in one cell. Memory grows with the ratings, not with users × films.

users = tb.from_long(ratings, row="user", item="film", score="stars")
model = tb.TBM(n_hidden=2, n_factors=1, random_state=0).fit(users)

# %%
# The best films for the first users, among those that they have not rated:

best = model.rank(users, top=3)
print(best.head(6))

# %%
# Do even users get even films? Each user has rated about four films of each kind, so both kinds are left.

even_user = best["row"].astype(int) % 2 == 0
even_film = best["item"].str[5:].astype(int) % 2 == 0
print(f"{(even_user == even_film).mean():.0%} of the recommended films are of the user's kind.")

# %%
# Films that the same users like:

print(model.similar_items("film 0", top=3))

# %%
# Probability of each number of stars that the first user would give to two films:

stars = model.predict_proba(users, "film", items=["film 0", "film 1"])[0]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for place, name in enumerate(["film 0", "film 1"]):
    axes.bar(np.arange(1, 6) + 0.4 * place - 0.2, stars[place], width=0.4, label=name)
axes.set(xlabel="stars", ylabel="probability")
axes.legend(frameon=False)
plt.show()
