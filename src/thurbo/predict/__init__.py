"""From a `Model` and `Rows` to answers: one predictive distribution, and the queries that read it."""
