"""Worlds: each is a Gymnasium environment and a table that compiled kernels walk."""
