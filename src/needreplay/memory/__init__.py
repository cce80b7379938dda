"""The replay memory: what was stored, and how it is drawn."""
