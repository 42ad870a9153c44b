"""Training by self-play: what ``train.py`` runs."""
