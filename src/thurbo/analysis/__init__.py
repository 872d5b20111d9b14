"""Analyses of results: ranking metrics, and Rubin's rules for multiple imputation; NumPy only."""
