"""Studies of tabular agents in the Dyna maze: the paper's figures 1 and 2, and four beyond them."""
