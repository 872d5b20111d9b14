"""§2–§4 The model of the paper: Gaussian variables, constraints on them, evidence, inference. JAX, no tables."""
