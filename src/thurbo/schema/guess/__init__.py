"""What a raw column is, and why: rules that look at cells, labels and names; NumPy only."""
