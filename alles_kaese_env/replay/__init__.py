"""Replays: games that were recorded, to be saved, loaded, stepped through and shown."""

from alles_kaese_env.replay.file import from_json, load, save, to_json
from alles_kaese_env.replay.game import ALL, PUBLIC, Event, Perspective, Replay, Turn

__all__ = [
    "ALL",
    "PUBLIC",
    "Event",
    "Perspective",
    "Replay",
    "Turn",
    "from_json",
    "load",
    "save",
    "to_json",
]
