"""Training a deep agent: what is run, the loop, what is recorded, and going on after a stop."""
