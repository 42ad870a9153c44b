"""The network that a run of ``train.py`` leaves, as an agent and in torch."""
