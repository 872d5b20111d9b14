"""§4.1, A.5.2 One Gaussian variable confined to an interval: exact in the tails, float32 and float64."""
