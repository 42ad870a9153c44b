"""Alles Käse!, the card game, as an environment for reinforcement learning."""

from __future__ import annotations

import gymnasium
import pettingzoo

from alles_kaese_env.actions import decode_action, describe_action, encode_action
from alles_kaese_env.core.observe import NO_RECALL_VERSION, OBSERVATION_VERSION
from alles_kaese_env.core.records import DISCARD, NUM_ACTIONS, PEEK, RULES_VERSION, TAKE
from alles_kaese_env.envs import pettingzoo_env as alles_kaese_v0
from alles_kaese_env.envs.gym_env import AllesKaeseEnv
from alles_kaese_env.envs.vector_env import AllesKaeseVectorEnv
from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.observation import OBSERVATION, STATE
from alles_kaese_env.variant import Variant

__version__ = "0.1.0"

__all__ = [
    "DISCARD",
    "NO_RECALL_VERSION",
    "NUM_ACTIONS",
    "OBSERVATION",
    "OBSERVATION_VERSION",
    "PEEK",
    "RULES_VERSION",
    "STATE",
    "TAKE",
    "AllesKaeseEnv",
    "AllesKaeseVectorEnv",
    "GameBatch",
    "Variant",
    "alles_kaese_v0",
    "decode_action",
    "describe_action",
    "encode_action",
]

_WITHOUT = {"recall": False}
for _id, _options in (("AllesKaese-v0", {}), ("AllesKaeseNoRecall-v0", _WITHOUT)):
    if _id not in gymnasium.registry:
        gymnasium.register(
            id=_id,
            entry_point="alles_kaese_env.envs.gym_env:AllesKaeseEnv",
            vector_entry_point="alles_kaese_env.envs.vector_env:AllesKaeseVectorEnv",
            kwargs=_options,
        )
for _id, _options in (("alles_kaese-v0", {}), ("alles_kaese_no_recall-v0", _WITHOUT)):
    if _id not in pettingzoo.aec_registry:
        pettingzoo.register(
            "aec",
            id=_id,
            entry_point="alles_kaese_env.envs.pettingzoo_env:env",
            kwargs=_options,
        )
