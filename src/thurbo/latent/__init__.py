"""§2–§4 The model of the paper: Gaussian variables, constraints on them, evidence, inference. JAX, no tables."""

from thurbo import _runtime  # right sums, and compiled programs that are kept, in whatever follows
