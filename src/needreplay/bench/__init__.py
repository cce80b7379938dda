"""Speed against named peers, for ``needreplay bench``."""
