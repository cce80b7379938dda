"""Train one deep agent: config, loop, metrics, checkpoints and resume, evaluation."""
