"""Tabular agents: Q-learning, Dyna-Q, prioritized sweeping, and prioritized sweeping with need."""
