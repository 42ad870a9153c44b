"""The search agent: beliefs from an observation, play-outs, a value network."""
