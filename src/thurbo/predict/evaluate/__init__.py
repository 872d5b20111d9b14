"""§6 Predictive accuracy: mask answers, predict them from the rest of their rows, compare with baselines."""
