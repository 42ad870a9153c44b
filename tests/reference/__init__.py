"""A slow, purely physical reference implementation of the game, for differential tests."""
