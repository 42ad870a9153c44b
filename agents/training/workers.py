"""Processes that learn as one: each plays games of its own and computes its part of an update.

All apply the same gradient, the sum over the parts of a minibatch in the order of the workers, so
they hold the same weights, bit by bit, and never exchange them. What is exchanged goes through
shared memory; who has to wait sleeps, so that a busy neighbour gets no less than its share.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import signal
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer, MaskableRolloutBufferSamples
from stable_baselines3.common.callbacks import BaseCallback

from agents.training.options import Config, WorkerLostError

LOSSES = ("loss", "policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl")
MEANS = tuple(f"train/{name}" for name in (*LOSSES, "clip_fraction"))
EXPLAINED = "train/explained_variance"


# --- The exchange ------------------------------------------------------------------------------


class Exchange:
    """Sums over all workers; each asks for the same sums in the same order.

    Args:
        number: of workers.
        size: bytes of the largest array.

    Attributes:
        rank: of the worker that this one belongs to; 0 is the process that started the others.
    """

    def __init__(self, number: int, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.number = number
        self.rank = 0
        # Two places for each worker: who writes a sum has seen everybody read the last but one.
        self._memory = context.RawArray("b", 2 * number * size)
        self._turn = 0
        self._here = context.RawValue("i", 0)  # how many have come to the present meeting
        self._door = context.Semaphore(1)  # who is in counts
        self._go = [context.Semaphore(0) for _ in range(number)]
        self._lost: str | None = None

    def of(self, rank: int) -> Exchange:
        """The same for another worker."""
        other = copy.copy(self)
        other.rank = rank
        return other

    def sum(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of the arrays of all workers, the same for each of them, bit by bit.

        Raises:
            WorkerLostError: a worker has ended; raised by the first one.
        """
        memory = np.frombuffer(self._memory, np.uint8).reshape(2, self.number, -1)
        places = memory[self._turn, :, : array.nbytes].view(array.dtype)
        places[self.rank] = array.ravel()
        self._turn = 1 - self._turn
        self._meet()
        return places.sum(axis=0).reshape(array.shape)

    def _meet(self) -> None:
        """Wait until all workers have come here; the last one goes on without sleeping."""
        self._take(self._door)
        self._here.value = (self._here.value + 1) % self.number
        is_last = not self._here.value
        self._door.release()
        if not is_last:
            self._take(self._go[self.rank])
            return
        for rank, go in enumerate(self._go):
            if rank != self.rank:
                go.release()

    def _take(self, semaphore: Any) -> None:
        semaphore.acquire()
        if self._lost:
            raise WorkerLostError(self._lost)

    def watch(self, processes: list[Any]) -> None:
        """Wait until one of the other workers has ended, and let the first one go on then."""
        (first, *_) = wait([process.sentinel for process in processes])
        process = next(process for process in processes if process.sentinel == first)
        process.join()
        self._lost = f"{process.name} has ended ({_reason(process.exitcode)})"
        for semaphore in (self._door, self._go[self.rank]):
            semaphore.release()


def _reason(code: int | None) -> str:
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


@contextmanager
def workers(number: int, size: int, work: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """Start the other workers; they end with the block, or with this process, however it ends.

    Args:
        number: of workers, this process included.
        size: of the `Exchange`.
        work: what each does, called with its exchange and the arguments.

    Yields:
        The `Exchange` of this process.
    """
    context = multiprocessing.get_context("spawn")  # a fork would take the threads of libraries
    exchange = Exchange(number, size)
    processes: list[Any] = []
    try:
        for rank in range(1, number):
            process = context.Process(
                target=_begin,
                args=(work, exchange.of(rank), *arguments),
                name=f"worker {rank}",
                daemon=True,
            )
            with _no_interrupts():
                process.start()
            processes.append(process)
        threading.Thread(target=exchange.watch, args=(processes,), daemon=True).start()
        yield exchange
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """A process that is started here does not hear of Ctrl-C; its parent ends it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(work: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows does not inherit it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


# --- Learning as one ---------------------------------------------------------------------------


class ShareOfRollout(MaskableRolloutBuffer):
    """The share of a worker; its minibatches are parts of those of all workers together.

    Attributes:
        weight: share of the minibatch that is being learned.
    """

    exchange: Exchange
    minibatches: int  # in a pass over the rollout
    weight: float

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Parts of minibatches, advantages normalised over each whole minibatch."""
        (samples,) = super().get()
        split = [tensor.tensor_split(self.minibatches) for tensor in samples]
        parts = [MaskableRolloutBufferSamples(*part) for part in zip(*split, strict=True)]
        wide = [part.advantages.double() for part in parts]
        moments = [(len(one), one.sum().item(), one.square().sum().item()) for one in wide]
        counts, sums, squares = self.exchange.sum(np.array(moments)).T
        means = sums / counts
        deviations = np.sqrt(np.maximum(squares - sums * means, 0) / (counts - 1)) + 1e-8
        for part, count, mean, deviation in zip(parts, counts, means, deviations, strict=True):
            self.weight = len(part.advantages) / count
            advantages = (part.advantages - float(mean)) / float(deviation)
            yield part._replace(advantages=advantages)


class LearnTogether(BaseCallback):
    """Makes the model of a worker learn as one with those of all others.

    The model has its share of the games; counters, schedules, gradients and losses are those of
    the whole.

    Args:
        exchange: that of the worker.
        config: of the run.
    """

    def __init__(self, exchange: Exchange, config: Config) -> None:
        super().__init__()
        self._exchange = exchange
        self._config = config
        self._explained = math.nan

    @staticmethod
    def size_of_exchange(config: Config, policy: torch.nn.Module) -> int:
        """Bytes that an `Exchange` of a run needs."""
        numbers = max(3 * _minibatches(config), 20)
        return max(8 * numbers, 4 * sum(one.numel() for one in policy.parameters()))

    def _init_callback(self) -> None:
        model: Any = self.model
        model.normalize_advantage = False  # the buffer does it
        buffer = ShareOfRollout(
            model.n_steps,
            model.observation_space,
            model.action_space,
            model.device,
            gamma=model.gamma,
            gae_lambda=model.gae_lambda,
            n_envs=model.n_envs,
        )
        buffer.exchange, buffer.minibatches = self._exchange, _minibatches(self._config)
        self._buffer = model.rollout_buffer = buffer
        self._parameters = list(model.policy.parameters())
        self._missing = len(self._parameters)
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _on_step(self) -> bool:
        self.model.num_timesteps += self._config.num_envs - self.model.n_envs
        return True

    def _on_rollout_end(self) -> None:
        self._sum_losses()

    def _on_training_end(self) -> None:
        self._sum_losses()

    def _on_gradient(self, _: torch.Tensor) -> None:
        """After the last gradient of a backward pass, and so before the model clips them."""
        self._missing -= 1
        if not self._missing:
            self._missing = len(self._parameters)
            self._sum_gradients()

    def _sum_gradients(self) -> None:
        gradients: list[Any] = [one.grad for one in self._parameters]
        part = torch.cat([one.flatten() for one in gradients]).mul_(self._buffer.weight).numpy()
        whole = torch.from_numpy(self._exchange.sum(part))
        sizes = [one.numel() for one in self._parameters]
        for parameter, gradient in zip(self._parameters, torch.split(whole, sizes), strict=True):
            parameter.grad = gradient.view_as(parameter)

    def _sum_losses(self) -> None:
        """What is logged of the last update, over all workers; and that their weights agree."""
        known = self.logger.name_to_value
        returns = self._buffer.returns.astype(np.float64)
        errors = returns - self._buffer.values
        weights = torch.cat([one.detach().flatten() for one in self._parameters])
        digest = zlib.crc32(weights.numpy().tobytes())
        part = [known.get(name, 0.0) * returns.size for name in MEANS]
        part += [one.sum() for one in (returns, returns**2, errors, errors**2)]
        *sums, count, digests = self._exchange.sum(np.array([*part, returns.size, digest]))
        if digests != digest * self._exchange.number:
            raise WorkerLostError("the workers no longer have the same weights")
        *means, of_returns, of_squares, of_errors, of_squared_errors = np.array(sums) / count
        if EXPLAINED in known:
            known.update(zip(MEANS, means, strict=True))
            known[EXPLAINED] = self._explained
        variance = of_squares - of_returns**2
        unexplained = of_squared_errors - of_errors**2
        self._explained = 1 - unexplained / variance if variance > 0 else math.nan


def _minibatches(config: Config) -> int:
    """In a pass over a rollout of all workers."""
    return -(-config.num_envs * config.n_steps // config.batch_size)
