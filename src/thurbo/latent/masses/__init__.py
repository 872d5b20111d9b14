"""§4.4 log P(e | h) of coupled constraints: integrals, and the sampling moves that go with them."""
