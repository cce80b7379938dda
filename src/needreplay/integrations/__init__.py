"""Replay for the learners of other libraries."""
