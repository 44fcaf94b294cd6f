"""A recurrent network, one word after the other."""

import math

import numpy as np


def recurrent_states(x, w_input, w_state, b_input, b_state):
    """A gated recurrent unit over x (n, d_in), from zeros -> all states (n, d).

    w_input (3d, d_in) and w_state (3d, d) hold three matrices each, one below
    the other: reset gate, update gate, proposal.
    """
    d = w_state.shape[1]
    state = np.zeros(d)
    states = []
    for word in x:  # one after the other: each step needs the state before
        from_input = w_input @ word + b_input
        from_state = w_state @ state + b_state
        new = np.zeros(d)
        for c in range(d):
            reset = 1 / (1 + math.exp(-from_input[c] - from_state[c]))
            update = 1 / (1 + math.exp(-from_input[d + c] - from_state[d + c]))
            p = 2 * d + c
            proposal = math.tanh(from_input[p] + reset * from_state[p])
            new[c] = update * state[c] + (1 - update) * proposal
        state = new
        states.append(state)
    return np.array(states)
