"""Policy-space response oracles, on top of MaskablePPO: ``train.py --algo psro``.

The algorithm of Lanctot et al., "A Unified Game-Theoretic Approach to Multiagent Reinforcement
Learning" (NeurIPS 2017). A pool of policies begins with one. In each iteration PPO learns a
response to the *meta-strategy*, which draws who of the pool plays a game; then the response joins
the pool, its payoffs against all others are estimated, and the meta-strategy becomes the maximin
mixture of the matrix of payoffs, by a linear program.

A run leaves the meta-strategy as one policy. In a position it does what each member does, as often
as it is that member's game that comes there. So it learns by cross-entropy what the members do in
the games in which they are drawn, and these are the games of the learner. It takes no others, since
who plays against them does not matter to how often a player's own choices lead somewhere.

What is different: both seats have the same pool, since the learner's seat is drawn for each game,
so the matrix is antisymmetric; the meta-strategy is the equilibrium of the matrix, without a least
share for each member; a response goes on from the weights of the last one, with a learning rate
that goes linearly to 0 in each iteration; there are no workers. The policy of a run is that of the
meta-strategy before the last response, and as an agent sees observations alone and no actions
before them, it can only come near to the mixture of whole games.
"""

from __future__ import annotations

import json
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sb3_contrib import MaskablePPO
from scipy.optimize import linprog
from torch import nn

from agents.arena.matches import win_share
from agents.ppo.agent import PolicyNetwork, PPOAgent
from agents.ppo.network import load_network, logits_of, network_of
from agents.solve.responses import payoffs
from agents.training.dqn import Actions, Masks, Observations, descend
from agents.training.options import RunError
from agents.training.self_play import SelfPlay, snapshot_name

Notes = list[tuple[Observations, Masks, npt.NDArray[np.float64]]]


def maximin(rows: list[list[float]]) -> npt.NDArray[np.float64]:
    """The mixture (M,) of the members of a pool that loses least to any of them.

    Args:
        rows: payoffs of each member against those before it; against others they are the negative.
    """
    number = len(rows)
    payoffs = np.zeros((number, number))
    for member, row in enumerate(rows):
        payoffs[member, :member] = row
    payoffs -= payoffs.T
    # The greatest v for which the mixture gets v or more against each member, a column.
    found = linprog(
        np.append(np.zeros(number), -1),
        A_ub=np.column_stack([-payoffs.T, np.ones(number)]),
        b_ub=np.zeros(number),
        A_eq=np.append(np.ones(number), 0)[None],
        b_eq=[1],
        bounds=[(0, None)] * number + [(None, None)],
        method="highs",
    )
    weights = np.maximum(found.x[:-1], 0)
    return np.asarray(weights / weights.sum())


class Watched:
    """A member of the pool that plays and notes how likely it takes each action."""

    def __init__(self, member: PPOAgent, notes: Notes) -> None:
        self.member = member
        self._notes = notes

    def act(self, observations: Observations, masks: Masks, rng: np.random.Generator) -> Actions:
        """Actions (B,) for observations (B, 253) and masks (B, 18)."""
        chances = self.member.probabilities(observations, masks)
        self._notes.append((observations, masks, chances))
        sums = chances.cumsum(axis=1)
        return (sums > rng.random((len(sums), 1)) * sums[:, -1:]).argmax(axis=1)


class PSRO(MaskablePPO):
    """`MaskablePPO` as the best response, and the meta-strategy as one policy.

    Args:
        iteration_steps: decisions of the learner in an iteration.
        options: of `MaskablePPO`.

    Attributes:
        joined: after how many decisions each member of the pool joined it.
        payoffs: of each member against those before it.
        mixture: the network of the meta-strategy.
        notes: what the members of the pool did in the present rollout.
    """

    def __init__(self, *args: Any, iteration_steps: int, **options: Any) -> None:
        self.iteration_steps = iteration_steps
        self.joined: list[int] = []
        self.payoffs: list[list[float]] = []
        self.notes: Notes = []
        super().__init__(*args, **options)

    def _setup_model(self) -> None:
        super()._setup_model()
        policy: Any = self.policy
        self.mixture = type(policy)(**policy._get_constructor_parameters()).to(self.device)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "mixture", "notes"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, others = super()._get_torch_save_params()
        return [*names, "mixture", "mixture.optimizer"], others

    def load_rest(self, file: Any) -> None:
        """Load what `set_parameters` does not; any exception means that it is broken."""
        with zipfile.ZipFile(file) as archive:
            data = json.loads(archive.read("data"))
        self.joined, self.payoffs = data["joined"], data["payoffs"]

    def network(self) -> PolicyNetwork:
        """A frozen copy of the meta-strategy as one policy."""
        return network_of(self.mixture)

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        done = num_timesteps / self.iteration_steps - (len(self.joined) - 1)
        self._current_progress_remaining = max(0.0, 1 - done)

    def train(self) -> None:
        """An update of the response, and one of the meta-strategy as one policy."""
        super().train()
        if not self.notes:
            return
        parts = [np.concatenate(part) for part in zip(*self.notes, strict=True)]
        self.notes.clear()
        observations, masks, chances = (torch.as_tensor(part, device=self.device) for part in parts)
        self._update_learning_rate(self.mixture.optimizer)
        size: Any = self.batch_size
        losses = []
        for _ in range(self.n_epochs):
            for rows in torch.split(torch.randperm(len(masks)), size):
                logits = logits_of(self.mixture, observations[rows])
                logits = logits.masked_fill(~masks[rows], -torch.inf)
                loss = nn.functional.cross_entropy(logits, chances[rows].float())
                descend(loss, self.mixture, self.mixture.optimizer, self.max_grad_norm)
                losses.append(loss.item())
        self.logger.record("train/mixture_loss", sum(losses) / len(losses))


class SelfPlayOfPSRO(SelfPlay):
    """`SelfPlay` against the meta-strategy; it ends the iterations.

    Args:
        games_of_pair: that estimate the payoff of two members; 0 computes it.
        args: of `SelfPlay`.
    """

    def __init__(self, games_of_pair: int, *args: Any) -> None:
        super().__init__(*args)
        self._games = games_of_pair
        self._members: list[PPOAgent] = []

    def _on_training_start(self) -> None:
        """Go on with the pool of the checkpoint, or begin with the policy as it stands."""
        model: Any = self.model
        number = sum(steps <= model.num_timesteps for steps in model.joined)
        model.joined, model.payoffs = model.joined[:number], model.payoffs[:number]
        files = [self._pool / snapshot_name(steps) for steps in model.joined]
        try:
            self._members = [PPOAgent.load(file, is_greedy=False) for file in files]
        except ValueError as error:
            raise RunError(f"the pool is not that of the checkpoint: {error}") from None
        for file in set(self._pool.glob("step-*.npz")) - set(files):
            self._remove(file)
        if not number:
            load_network(model.mixture, network_of(model.policy))
            self._join()
        self._set_opponents()

    def _on_rollout_start(self) -> None:
        model: Any = self.model
        if model.num_timesteps >= len(model.joined) * model.iteration_steps:
            self._join()
            self._set_opponents()

    def _join(self) -> None:
        """Put the response into the pool."""
        model: Any = self.model
        response = PPOAgent(network_of(model.policy), is_greedy=False)
        row = self._payoffs(response)
        response.save(self._pool / snapshot_name(model.num_timesteps))
        self._members.append(response)
        model.payoffs.append(row)
        model.joined.append(model.num_timesteps)

    def _payoffs(self, response: PPOAgent) -> list[float]:
        """What a response gets against each member of the pool."""
        assert self._rules is not None
        if not self._games:
            return payoffs(response, self._members, self._rules)
        scores = (
            win_share(response, member, variant=self._rules, games=self._games, seed=3)
            for member in self._members
        )
        return [2 * score.share - 1 for score in scores]

    def _set_opponents(self) -> None:
        model: Any = self.model
        weights = maximin(model.payoffs)
        used = np.flatnonzero(weights)
        opponents = [Watched(self._members[k], model.notes) for k in used]
        self._venv.set_opponents(opponents, weights[used].tolist())
