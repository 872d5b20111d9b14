"""§5 Learning: objectives, the two phases of the likelihood gradient, the start, and the training loop."""
