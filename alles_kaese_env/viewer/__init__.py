"""Pictures of the game for people."""
