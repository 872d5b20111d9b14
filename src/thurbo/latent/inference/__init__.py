"""§4 Inference under linear constraints: sampling, mean-field, exact enumeration, probabilities of evidence."""
