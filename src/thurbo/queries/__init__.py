"""§6 What one asks a fitted model: features, predictions, imputations, samples, scores."""
