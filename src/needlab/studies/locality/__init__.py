"""Does need pay where updates are local? The value of a backup, and the ladder to the DQN."""
