"""The protocol of an agent.

It is the one that the environment asks of opponents, so every agent can be handed to every face.
"""

from __future__ import annotations

from alles_kaese_env.single_seat import Agent

__all__ = ["Agent"]
