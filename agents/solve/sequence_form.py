"""Sequence forms of two-player zero-sum games, best responses on them and their solution.

A sequence form (Koller, Megiddo and von Stengel 1996) has for each seat the sequences of its own
actions that lead somewhere. A *plan* gives the probability of each sequence as far as it is up to
that seat; against a plan of the other seat, what a sequence is worth is a sum over leaves. The
solver is PCFR+ with quadratic averaging (Farina, Kroer and Sandholm 2021).

This file knows nothing of the game.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.jit import jit

SEATS = 2
ITERATIONS_BETWEEN = 16  # two looks at the gap
MAX_ITERATIONS = 1_000_000  # for a subgame

GRADIENT, REGRETS, STRATEGY, PLAN, AVERAGE = range(5)  # what the solver holds by sequence
NUM_ARRAYS = 5

# What is counted of subgames, and says where in the arrays one begins.
NODES, LEAVES, SETS, SEQUENCES = 0, 1, 2, 4  # the last two by seat
COUNTS = 6


class Forms(NamedTuple):
    """Sequence forms of subgames, one after the other.

    Sequences are counted from the beginning of their subgame, 0 is the empty one. Those of an
    information set lie side by side, and a set comes after the sequence that leads to it.

    Attributes:
        leaf_sequences: with which a leaf is reached, by seat, (2, leaves) int32.
        leaf_links: the subgame that a leaf leads to, -1 at the end of a game, (leaves,) int32.
        leaf_weights: its chance, times the payoff of seat 0 at the end of a game, (leaves,).
        set_parents: the sequence that leads to a set, by seat, (2, sets) int32.
        set_firsts: the first sequence of a set, by seat, (2, sets) int32.
        set_sizes: the actions of a set, by seat, (2, sets) uint8.
    """

    leaf_sequences: npt.NDArray[np.int32]
    leaf_links: npt.NDArray[np.int32]
    leaf_weights: npt.NDArray[np.float64]
    set_parents: npt.NDArray[np.int32]
    set_firsts: npt.NDArray[np.int32]
    set_sizes: npt.NDArray[np.uint8]


def new_forms(counts: npt.NDArray[np.int64]) -> Forms:
    """Empty forms of this size."""
    leaves, sets = counts[LEAVES], counts[SETS : SETS + SEATS].max()
    return Forms(
        np.zeros((SEATS, leaves), np.int32),
        np.zeros(leaves, np.int32),
        np.zeros(leaves),
        np.zeros((SEATS, sets), np.int32),
        np.zeros((SEATS, sets), np.int32),
        np.zeros((SEATS, sets), np.uint8),
    )


# --- Values and regrets on a sequence form -------------------------------------------------------
#
# ``worth`` (leaves,) is what each leaf is worth to a seat, times its chance.


@jit
def part_of(forms, start, end, seat):
    """The sets of a seat in the subgame between two counts: parents, firsts, sizes."""
    low, high = start[SETS + seat], end[SETS + seat]
    return (
        forms.set_parents[seat, low:high],
        forms.set_firsts[seat, low:high],
        forms.set_sizes[seat, low:high],
    )


@jit
def write_worth(forms, start, end, seat, values, worth):
    """What each leaf of a subgame is worth to a seat, with the values of later subgames."""
    sign = 1.0 if seat == 0 else -1.0
    for k in range(len(worth)):
        at = start[LEAVES] + k
        link = forms.leaf_links[at]
        worth[k] = forms.leaf_weights[at] * (sign if link < 0 else values[link])


@jit
def write_gradient(forms, start, seat, worth, plan, gradient):
    """What each sequence of a seat is worth against the plan of the other, its leaves alone."""
    own = forms.leaf_sequences[seat]
    other = forms.leaf_sequences[1 - seat]
    gradient[:] = 0
    for k in range(len(worth)):
        at = start[LEAVES] + k
        gradient[own[at]] += worth[k] * plan[other[at]]


@jit
def best_value(sets, gradient):
    """What the best plan gets against a gradient, which is used up."""
    parents, firsts, sizes = sets
    for k in range(len(parents) - 1, -1, -1):
        best = gradient[firsts[k]]
        for sequence in range(firsts[k] + 1, firsts[k] + sizes[k]):
            best = max(best, gradient[sequence])
        gradient[parents[k]] += best
    return gradient[0]


@jit
def write_plan(sets, strategy, plan):
    """The plan of a strategy, which gives a probability to each action of each set."""
    parents, firsts, sizes = sets
    plan[0] = 1
    for k in range(len(parents)):
        for sequence in range(firsts[k], firsts[k] + sizes[k]):
            plan[sequence] = plan[parents[k]] * strategy[sequence]


@jit
def improve(sets, buffer):
    """A step of PCFR+ at every set: the last regret predicts the next one.

    Without a gradient or regrets, every action of a set becomes equally likely.
    """
    parents, firsts, sizes = sets
    gradient, regrets, strategy = buffer[GRADIENT], buffer[REGRETS], buffer[STRATEGY]
    for k in range(len(parents) - 1, -1, -1):
        first, last = firsts[k], firsts[k] + sizes[k]
        value = 0.0
        for sequence in range(first, last):
            value += strategy[sequence] * gradient[sequence]
        gradient[parents[k]] += value
        total = 0.0
        for sequence in range(first, last):
            regret = gradient[sequence] - value
            regrets[sequence] = max(regrets[sequence] + regret, 0.0)
            strategy[sequence] = max(regrets[sequence] + regret, 0.0)
            total += strategy[sequence]
        for sequence in range(first, last):
            strategy[sequence] = strategy[sequence] / total if total > 0 else 1 / sizes[k]
    write_plan(sets, strategy, buffer[PLAN])


@jit
def gap_of(forms, start, sets, worth, buffers):
    """The NashConv of the average plans, times the sum of their weights."""
    gap = 0.0
    for seat in range(SEATS):
        gradient = buffers[seat][GRADIENT]
        write_gradient(forms, start, seat, worth, buffers[1 - seat][AVERAGE], gradient)
        if seat == 1:
            gradient *= -1
        gap += best_value(sets[seat], gradient)
    return gap


@jit
def solve_subgame(forms, start, end, values, tolerance):
    """Average plans of both seats whose NashConv is at most the tolerance, and the iterations.

    ``values`` are those of later subgames for seat 0.
    """
    worth = np.zeros(end[LEAVES] - start[LEAVES])
    write_worth(forms, start, end, 0, values, worth)
    numbers = end[SEQUENCES:] - start[SEQUENCES:]
    sets = (part_of(forms, start, end, 0), part_of(forms, start, end, 1))
    buffers = (np.zeros((NUM_ARRAYS, numbers[0])), np.zeros((NUM_ARRAYS, numbers[1])))
    for seat in range(SEATS):
        improve(sets[seat], buffers[seat])
    iteration = 0
    weights = 0.0
    while iteration < MAX_ITERATIONS:
        iteration += 1
        weight = np.float64(iteration) ** 2
        weights += weight
        for seat in range(SEATS):
            buffer = buffers[seat]
            write_gradient(forms, start, seat, worth, buffers[1 - seat][PLAN], buffer[GRADIENT])
            if seat == 1:
                buffer[GRADIENT] *= -1
            improve(sets[seat], buffer)
            buffer[AVERAGE] += weight * buffer[PLAN]
        is_time = iteration % ITERATIONS_BETWEEN == 0 or iteration == 1
        if is_time and gap_of(forms, start, sets, worth, buffers) <= tolerance * weights:
            break
    return buffers[0][AVERAGE] / weights, buffers[1][AVERAGE] / weights, iteration


@jit
def respond(forms, start, end, seat, plan, values):
    """What the best response of a seat gets against a plan of the other in a subgame."""
    worth = np.zeros(end[LEAVES] - start[LEAVES])
    write_worth(forms, start, end, seat, values, worth)
    gradient = np.zeros(end[SEQUENCES + seat] - start[SEQUENCES + seat])
    write_gradient(forms, start, seat, worth, plan, gradient)
    return best_value(part_of(forms, start, end, seat), gradient)


@jit
def solve_subgames(which, forms, starts, best, tolerance):
    """Solve some subgames, and write what best responses get against the plans that were found.

    ``best`` (2, subgames) has what a best response of each seat gets. Returns the number of
    iterations, times leaves.
    """
    values = (best[0] - best[1]) / 2
    work = 0
    for k in range(len(which)):
        start, end = starts[k], starts[k + 1]
        first, second, iterations = solve_subgame(forms, start, end, values, tolerance)
        best[0, which[k]] = respond(forms, start, end, 0, second, best[0])
        best[1, which[k]] = respond(forms, start, end, 1, first, best[1])
        work += iterations * (end[LEAVES] - start[LEAVES])
    return work


@jit
def exploit_subgames(which, forms, starts, strategy, best):
    """Write what a best response of each seat gets against a strategy of the other.

    ``strategy`` (2, sequences) gives a probability to each action of each set.
    """
    for k in range(len(which)):
        start, end = starts[k], starts[k + 1]
        for seat in range(SEATS):
            other = 1 - seat
            low, high = start[SEQUENCES + other], end[SEQUENCES + other]
            plan = np.zeros(high - low)
            write_plan(part_of(forms, start, end, other), strategy[other, low:high], plan)
            best[seat, which[k]] = respond(forms, start, end, seat, plan, best[seat])


@jit
def play_subgames(which, forms, starts, first, second, values):
    """Write what seat 0 gets if each seat plays its strategy, which are as in `exploit_subgames`.

    ``values`` (subgames,) are those of later subgames.
    """
    for k in range(len(which)):
        start, end = starts[k], starts[k + 1]
        worth = np.zeros(end[LEAVES] - start[LEAVES])
        write_worth(forms, start, end, 0, values, worth)
        plans = (
            np.zeros(end[SEQUENCES] - start[SEQUENCES]),
            np.zeros(end[SEQUENCES + 1] - start[SEQUENCES + 1]),
        )
        for seat, strategy in ((0, first), (1, second)):
            low = start[SEQUENCES + seat]
            part = strategy[low : low + len(plans[seat])]
            write_plan(part_of(forms, start, end, seat), part, plans[seat])
        gradient = np.zeros(len(plans[0]))
        write_gradient(forms, start, 0, worth, plans[1], gradient)
        values[which[k]] = (gradient * plans[0]).sum()


@jit
def respond_held_out(forms, start, end, seat, plans, values):
    """What the best response of a seat to the first of two plans gets against each of them.

    ``plans`` (2, sequences of the other seat); ``values`` (2, subgames) are those of later
    subgames against the first and against the second.
    """
    gradients = np.zeros((2, end[SEQUENCES + seat] - start[SEQUENCES + seat]))
    worth = np.zeros(end[LEAVES] - start[LEAVES])
    for k in range(2):
        write_worth(forms, start, end, seat, values[k], worth)
        write_gradient(forms, start, seat, worth, plans[k], gradients[k])
    parents, firsts, sizes = part_of(forms, start, end, seat)
    for k in range(len(parents) - 1, -1, -1):
        best = firsts[k]
        for sequence in range(firsts[k] + 1, firsts[k] + sizes[k]):
            if gradients[0, sequence] > gradients[0, best]:
                best = sequence
        gradients[:, parents[k]] += gradients[:, best]
    return gradients[0, 0], gradients[1, 0]


@jit
def exploit_held_out(which, forms, starts, strategies, best):
    """As `exploit_subgames`, and what these responses get against another strategy.

    ``strategies`` (2, 2, sequences) are the one that they respond to and the other;
    ``best`` (2, 2, subgames) is what they get against each, by seat.
    """
    for k in range(len(which)):
        start, end = starts[k], starts[k + 1]
        for seat in range(SEATS):
            other = 1 - seat
            low, high = start[SEQUENCES + other], end[SEQUENCES + other]
            plans = np.zeros((2, high - low))
            for one in range(2):
                sets = part_of(forms, start, end, other)
                write_plan(sets, strategies[one, other, low:high], plans[one])
            gains = respond_held_out(forms, start, end, seat, plans, best[:, seat])
            best[0, seat, which[k]], best[1, seat, which[k]] = gains


@jit
def count_states(which, forms, starts, states):
    """Write how many states the uncut tree has from the beginning of each subgame on."""
    for k in range(len(which)):
        start, end = starts[k], starts[k + 1]
        number = np.float64(end[NODES] - start[NODES])
        for at in range(start[LEAVES], end[LEAVES]):
            if forms.leaf_links[at] >= 0:
                number += states[forms.leaf_links[at]]
        states[which[k]] = number
