"""§5 Learning: objectives, the two phases of the likelihood gradient, initial values, and the training loop."""
