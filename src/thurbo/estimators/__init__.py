"""The scikit-learn face: TBM, its imputer, its scorer."""
