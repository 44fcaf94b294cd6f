"""The paper's formulas once more, as slowly and as plainly as they can be written.

Each function works on NumPy arrays in float64, one number at a time: loops instead of broadcasting, names instead
of axes. The tests hold the library to these functions, and the chapters show them before the library's own.
"""

import itertools
import math
import statistics
import unicodedata

import numpy as np


def softmax(scores):
    """exp of each score, divided by the sum; a list of only -inf gets zeros."""
    largest = max(scores)
    if largest == -math.inf:
        return [0.0 for _ in scores]
    exponentials = [math.exp(score - largest) for score in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


def attention(query, key, value, mask=None):
    """Equation (1): (n, d_k), (m, d_k), (m, d_v) -> (n, d_v), (n, m)."""
    n, d_k = query.shape
    m, d_v = value.shape
    output = np.zeros((n, d_v))
    weights = np.zeros((n, m))
    for i in range(n):
        scores = []
        for j in range(m):
            dot_product = sum(query[i, c] * key[j, c] for c in range(d_k))
            scaled = dot_product / math.sqrt(d_k)
            may_look = mask is None or mask[i, j]
            scores.append(scaled if may_look else -math.inf)
        weights[i] = softmax(scores)
        for j in range(m):
            for c in range(d_v):
                output[i, c] += weights[i, j] * value[j, c]
    return output, weights


def additive_attention(query, key, value, w_query, w_key, b_key, w_score):
    """A score of w · tanh(W_q q + W_k k + b) for each pair.

    query (n, d_q), key (m, d_k), value (m, d_v) -> output (n, d_v)
    """
    n, m = len(query), len(key)
    output = np.zeros((n, value.shape[1]))
    for i in range(n):
        scores = []
        for j in range(m):
            hidden = np.tanh(w_query @ query[i] + w_key @ key[j] + b_key)
            scores.append(float(w_score @ hidden))
        for j, weight in enumerate(softmax(scores)):
            output[i] += weight * value[j]
    return output


def self_attention(states, w_query, w_key, w_value):
    """Each word asks all words, its own too -> states (n, d), weights (n, n).

    states (n, d); w_query and w_key (d, d_k), w_value (d, d)
    """
    n = len(states)
    new, weights = states.copy(), np.zeros((n, n))
    for i in range(n):
        query = states[i] @ w_query
        scores = [float(query @ (states[j] @ w_key)) for j in range(n)]
        weights[i] = softmax(scores)
        for j in range(n):
            new[i] += weights[i, j] * (states[j] @ w_value)
    return new, weights


def restricted_attention(query, key, value, r):
    """Equation (1), but query i has the r keys around place i alone, r odd -> (n, d_v)."""
    n, d_k = query.shape
    output = np.zeros((n, value.shape[1]))
    for i in range(n):
        around = [j for j in range(i - r // 2, i + r // 2 + 1) if 0 <= j < n]
        scores = []
        for j in around:  # r of them, however long the sentence
            dot_product = sum(query[i, c] * key[j, c] for c in range(d_k))
            scores.append(dot_product / math.sqrt(d_k))
        for j, weight in zip(around, softmax(scores), strict=True):
            output[i] += weight * value[j]
    return output


def steps_to_reach(n, start, reads):
    """Place -> after how many steps its state depends on the word at `start`.

    reads(step, i): the places whose states place i reads in this step, from 0.
    """
    steps = {start: 0}
    step = 0
    while True:
        new = {}
        for i in range(n):
            if i not in steps and any(j in steps for j in reads(step, i)):
                new[i] = step + 1
        if not new:
            return steps
        steps |= new
        step += 1


def maximum_path_length(n, reads):
    """The most steps that any word takes to any place it reaches at all."""
    longest = 0
    for start in range(n):
        longest = max(longest, *steps_to_reach(n, start, reads).values())
    return longest


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


def multi_head_attention(
    query,
    key,
    value,
    w_query,
    w_key,
    w_value,
    w_output,
    mask=None,
):
    """Section 3.2.2; w_query[i] (d_model, d_k), w_output (h · d_v, d_model)."""
    heads = []
    for w_q, w_k, w_v in zip(w_query, w_key, w_value, strict=True):
        output, _ = attention(query @ w_q, key @ w_k, value @ w_v, mask)
        heads.append(output)
    return np.concatenate(heads, axis=1) @ w_output


def multi_head_attention_without(
    removed,
    query,
    key,
    value,
    w_query,
    w_key,
    w_value,
    w_output,
):
    """Multi-head attention in which the heads with these numbers find nothing."""
    heads = []
    for i in range(len(w_query)):
        output, _ = attention(query @ w_query[i], key @ w_key[i], value @ w_value[i])
        heads.append(np.zeros_like(output) if i in removed else output)
    return np.concatenate(heads, axis=1) @ w_output


def causal_mask(length):
    """True where key j does not come after query i."""
    return np.array([[j <= i for j in range(length)] for i in range(length)])


def sinusoids(length, d_model, base=10000.0):
    """Section 3.5, one entry at a time."""
    table = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / base ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def rotate(x, position, base=10000.0):
    """Not in the paper; x (d_k), a query or a key, turned pair by pair."""
    turned = np.zeros(len(x))
    for i in range(0, len(x), 2):
        angle = position / base ** (i / len(x))
        sine, cosine = math.sin(angle), math.cos(angle)
        turned[i] = x[i] * cosine - x[i + 1] * sine
        turned[i + 1] = x[i] * sine + x[i + 1] * cosine
    return turned


def embedding(tokens, matrix):
    """Section 3.4: each token's row of the matrix, times √d_model."""
    d_model = len(matrix[0])
    vectors = []
    for token in tokens:
        row = matrix[token]
        vectors.append([math.sqrt(d_model) * row[c] for c in range(d_model)])
    return np.array(vectors)


def logits(states, matrix):
    """Section 3.4: states (n, d_model) times each row -> (n, vocabulary)."""
    products = np.zeros((len(states), len(matrix)))
    for i, state in enumerate(states):
        for token, row in enumerate(matrix):
            products[i, token] = sum(state[c] * row[c] for c in range(len(row)))
    return products


def feed_forward(x, w_1, b_1, w_2, b_2):
    """Equation (2); x (n, d_model), w_1 (d_model, d_ff), w_2 (d_ff, d_model)"""
    rows = []
    for position in x:
        hidden = [max(0.0, h) for h in position @ w_1 + b_1]
        rows.append(np.array(hidden) @ w_2 + b_2)
    return np.array(rows)


def layer_norm(x, gain, bias, epsilon=1e-5):
    """Each position's vector, to mean 0 and variance 1; then gain and bias."""
    rows = []
    for position in x:
        mean = sum(position) / len(position)
        variance = sum((c - mean) ** 2 for c in position) / len(position)
        root = math.sqrt(variance + epsilon)
        rows.append([(c - mean) / root for c in position] * gain + bias)
    return np.array(rows)


def byte_pair_merges(words, num_merges):
    """The pairs of pieces that byte-pair encoding joins, in order.

    Each time, the pair that stands side by side most often. A tie goes to the
    pair of older pieces: characters in alphabetical order, then joined ones.
    """
    texts = [list(word) for word in words]
    pieces = sorted({character for word in words for character in word})
    merges = []
    while len(merges) < num_merges:
        counts = {}
        for text in texts:
            for pair in itertools.pairwise(text):
                counts[pair] = counts.get(pair, 0) + 1
        best = pair = None
        for (left, right), count in counts.items():
            rank = (-count, pieces.index(left), pieces.index(right))
            if best is None or rank < best:
                best, pair = rank, (left, right)
        if pair is None:
            break
        merges.append(pair)
        pieces.append(pair[0] + pair[1])
        texts = [join(text, pair) for text in texts]
    return merges


def join(text, pair):
    """The pieces of a text, with this pair joined wherever it stands."""
    joined, i = [], 0
    while i < len(text):
        if tuple(text[i : i + 2]) == pair:
            joined.append(text[i] + text[i + 1])
            i += 2
        else:
            joined.append(text[i])
            i += 1
    return joined


def byte_pair_pieces(word, merges):
    """A word cut into pieces: the earliest merge first, till none fits."""
    pieces = list(word)
    while True:
        pairs = set(itertools.pairwise(pieces))
        possible = [merge for merge in merges if merge in pairs]
        if not possible:
            return pieces
        pieces = join(pieces, possible[0])


def padded_batch(pairs, pad_id, bos_id, eos_id):
    """Pairs of lists of ids -> source, target_input, target_output."""
    source_width = max(len(source) for source, _ in pairs) + 1
    target_width = max(len(target) for _, target in pairs) + 1
    source_rows = np.full((len(pairs), source_width), pad_id)
    target_input = np.full((len(pairs), target_width), pad_id)
    target_output = np.full((len(pairs), target_width), pad_id)
    for row, (source, target) in enumerate(pairs):
        for i, token in enumerate(source):
            source_rows[row, i] = token
        source_rows[row, len(source)] = eos_id
        target_input[row, 0] = bos_id
        for i, token in enumerate(target):
            target_input[row, i + 1] = token
            target_output[row, i] = token
        target_output[row, len(target)] = eos_id
    return source_rows, target_input, target_output


def label_smoothing_loss(logits, target, epsilon_ls, pad_id):
    """Mean of -Σ q ln p over real tokens; q: 1 - ε on the right, ε over all."""
    total, tokens = 0.0, 0
    for sentence, answers in zip(logits, target, strict=True):
        for scores, answer in zip(sentence, answers, strict=True):
            if answer == pad_id:
                continue
            for token, p in enumerate(softmax(list(scores))):
                q = epsilon_ls / len(scores)
                if token == answer:
                    q += 1 - epsilon_ls
                total -= q * math.log(p)
            tokens += 1
    return total / tokens


def learning_rate(step_num, d_model, warmup_steps):
    """Equation (3): a line to warmup_steps, then an inverse square root."""
    peak = 1 / math.sqrt(d_model * warmup_steps)
    if step_num <= warmup_steps:
        return peak * step_num / warmup_steps
    return peak * math.sqrt(warmup_steps / step_num)


def adam_step(weight, gradient, m, v, t, rate, beta1=0.9, beta2=0.98):
    """Kingma and Ba (2015): step t of one weight -> it and both averages."""
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient**2
    mean, mean_square = m / (1 - beta1**t), v / (1 - beta2**t)
    return weight - rate * mean / (math.sqrt(mean_square) + 1e-9), m, v


def transformer(
    weights,
    num_heads,
    source,
    target_input,
    pad_id,
    norm_order="post",
):
    """The whole model for one sentence pair: ids to (target, vocabulary).

    weights: name → float64 array, as in the library's state dict.
    A linear map is stored there as (out, in).
    """
    matrix = weights["embedding.weight"]
    d_model = matrix.shape[1]

    def embed(tokens, table):
        vectors = [table[token] * math.sqrt(d_model) for token in tokens]
        return np.array(vectors) + sinusoids(len(tokens), d_model)

    def attend(name, query, memory, mask):
        def per_head(side):
            wide = weights[f"{name}.{side}_projection.weight"].T
            return np.split(wide, num_heads, axis=1)

        w_query, w_key, w_value = map(per_head, ("query", "key", "value"))
        w_output = weights[f"{name}.output_projection.weight"].T
        matrices = (w_query, w_key, w_value, w_output)
        return multi_head_attention(query, memory, memory, *matrices, mask)

    def normalise(name, x):
        return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def add_and_norm(name, x, sublayer):
        if norm_order == "pre":
            return x + sublayer(normalise(f"{name}.norm", x))
        return normalise(f"{name}.norm", x + sublayer(x))

    def network(name, x):
        inner, outer = f"{name}.inner", f"{name}.outer"
        return feed_forward(
            x,
            weights[f"{inner}.weight"].T,
            weights[f"{inner}.bias"],
            weights[f"{outer}.weight"].T,
            weights[f"{outer}.bias"],
        )

    def stack(side, x, self_mask, memory=None, memory_mask=None):
        layer = 0
        while f"{side}.layers.{layer}.feed_forward.inner.weight" in weights:
            name = f"{side}.layers.{layer}"

            def look_around(y, name=f"{name}.self_attention"):
                return attend(name, y, y, self_mask)

            def look_at_memory(y, name=f"{name}.cross_attention"):
                return attend(name, y, memory, memory_mask)

            def think(y, name=f"{name}.feed_forward"):
                return network(name, y)

            x = add_and_norm(f"{name}.self_attention_norm", x, look_around)
            if memory is not None:
                norm = f"{name}.cross_attention_norm"
                x = add_and_norm(norm, x, look_at_memory)
            x = add_and_norm(f"{name}.feed_forward_norm", x, think)
            layer += 1
        return normalise(f"{side}.norm", x) if norm_order == "pre" else x

    def may_look(queries, keys, causal):
        mask = np.empty((len(queries), len(keys)), dtype=bool)
        for i in range(len(queries)):
            for j, key in enumerate(keys):
                mask[i, j] = key != pad_id and (not causal or j <= i)
        return mask

    source_table = weights.get("own_source_embedding.weight", matrix)
    source_mask = may_look(source, source, causal=False)
    memory = stack("encoder", embed(source, source_table), source_mask)
    states = stack(
        "decoder",
        embed(target_input, matrix),
        may_look(target_input, target_input, causal=True),
        memory,
        may_look(target_input, source, causal=False),
    )
    return states @ matrix.T


def length_penalty(length, alpha):
    """Wu et al. (2016): 1 at a length of 1, and growing with it."""
    return ((5 + length) / 6) ** alpha


def greedy_search(log_probabilities, bos_id, eos_id, pad_id, limit):
    """The likeliest next token, again and again -> (log-probability, tokens).

    log_probabilities: from the tokens so far to that of each next token.
    """
    total, tokens = 0.0, [bos_id]
    while len(tokens) <= limit and tokens[-1] != eos_id:
        choices = log_probabilities(tokens)
        best = max(
            (token for token in range(len(choices)) if token != pad_id),
            key=lambda token: choices[token],
        )
        total += choices[best]
        tokens.append(best)
    return total, tokens[1:]


def beam_search(
    log_probabilities,
    bos_id,
    eos_id,
    pad_id,
    beam_size,
    alpha,
    limit,
):
    """Section 6.1 for one sentence -> [(score, tokens)], best first.

    log_probabilities: from the tokens so far to that of each next token.
    """
    beam, finished = [(0.0, [bos_id])], []
    for length in range(1, limit + 1):
        extensions = []
        for total, tokens in beam:
            for token, log_p in enumerate(log_probabilities(tokens)):
                if token != pad_id:
                    extensions.append((total + log_p, [*tokens, token]))
        extensions.sort(key=lambda extension: -extension[0])
        penalty = length_penalty(length, alpha)
        for total, tokens in extensions[:beam_size]:
            if tokens[-1] == eos_id:
                finished.append((total / penalty, tokens[1:]))
        beam = [e for e in extensions if e[1][-1] != eos_id][:beam_size]
        if length == limit:
            finished += [(t / penalty, tokens[1:]) for t, tokens in beam]
        finished.sort(key=lambda hypothesis: -hypothesis[0])
        finished = finished[:beam_size]
        best_open = beam[0][0] / penalty
        if len(finished) == beam_size and finished[-1][0] >= best_open:
            break
    return finished


def every_sentence(log_probabilities, bos_id, eos_id, pad_id, alpha, limit):
    """Every output of at most `limit` tokens with its score, best first.

    No beam can improve on the first.
    """
    finished, unfinished = [], [(0.0, [bos_id])]
    while unfinished:
        total, tokens = unfinished.pop()
        length = len(tokens) - 1
        if length > 0 and (tokens[-1] == eos_id or length == limit):
            finished.append((total / length_penalty(length, alpha), tokens[1:]))
            continue
        for token, log_probability in enumerate(log_probabilities(tokens)):
            if token != pad_id:
                unfinished.append((total + log_probability, [*tokens, token]))
    return sorted(finished, key=lambda hypothesis: -hypothesis[0])


def perplexity(log_probabilities):
    """exp of minus the mean log-probability (nats) of the right tokens."""
    total = 0.0
    for log_probability in log_probabilities:
        total += log_probability
    return math.exp(-total / len(log_probabilities))


def count_ngrams(words, n):
    """How often each run of n words occurs."""
    counts = {}
    for start in range(len(words) - n + 1):
        ngram = tuple(words[start : start + n])
        counts[ngram] = counts.get(ngram, 0) + 1
    return counts


def bleu(hypotheses, references, longest=4):
    """Papineni et al. (2002): lists of words, one reference each; 0 to 100."""
    logarithms = 0.0
    for n in range(1, longest + 1):
        matches, total = 0, 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            allowed = count_ngrams(reference, n)
            for ngram, count in count_ngrams(hypothesis, n).items():
                matches += min(count, allowed.get(ngram, 0))  # clipped
                total += count
        if matches == 0:
            return 0.0
        logarithms += math.log(matches / total) / longest
    said, wanted = sum(map(len, hypotheses)), sum(map(len, references))
    brevity_penalty = 1.0 if said >= wanted else math.exp(1 - wanted / said)
    return 100 * brevity_penalty * math.exp(logarithms)


def ring_all_reduce(vectors, turns=None):
    """Workers in a ring add up their vectors -> what each holds and has sent.

    Every vector is cut into as many pieces as there are workers. In each turn
    everybody passes one piece to the right. At first the receiver adds it to
    its own; later the pieces are finished sums, and the receiver keeps them.
    `turns` stops it early.
    """
    n = len(vectors)
    vectors = [np.array(vector, dtype=float) for vector in vectors]
    held = [np.array_split(vector, n) for vector in vectors]
    sent = [0] * n
    for turn in range(2 * (n - 1) if turns is None else turns):
        messages = [held[i][(i - turn) % n].copy() for i in range(n)]
        for worker in range(n):
            left = (worker - 1) % n
            piece = (left - turn) % n
            if turn < n - 1:
                held[worker][piece] += messages[left]
            else:
                held[worker][piece] = messages[left]
            sent[left] += len(messages[left])
    return [np.concatenate(pieces) for pieces in held], sent


def matrix_products(config, source, target):
    """Every matrix product of one forward pass over one sentence pair.

    The pair has this number of source tokens and of target tokens.
    -> [(rows, inner, columns, how often)], (rows, inner) times (inner, columns)
    """
    d_model, h = config.d_model, config.num_heads

    def attend(queries, keys):
        return [
            (queries, d_model, h * config.d_k, 1),  # queries
            (keys, d_model, h * config.d_k, 1),  # keys
            (keys, d_model, h * config.d_v, 1),  # values
            (queries, config.d_k, keys, h),  # scores
            (queries, keys, config.d_v, h),  # weights times values
            (queries, h * config.d_v, d_model, 1),  # output projection
        ]

    def feed_forward(length):
        inner = (length, d_model, config.d_ff, 1)
        outer = (length, config.d_ff, d_model, 1)
        return [inner, outer]

    encoder = attend(source, source) + feed_forward(source)
    decoder = attend(target, target) + attend(target, source)
    decoder += feed_forward(target)
    layers = config.num_layers * encoder + config.decoder_layers * decoder
    return [*layers, (target, d_model, config.vocabulary_size, 1)]  # and logits


def share_of_weight(weights, key_of_query, causal=False):
    """What a head gives to one key of each query, and what even weights would.

    weights (n, m); key_of_query(i) is a key, or another number if it has none.
    """
    n, m = weights.shape
    given, even = [], []
    for i in range(n):
        visible = i + 1 if causal else m
        j = key_of_query(i)
        if 0 <= j < visible and visible > 1:  # where there is a choice
            given.append(weights[i, j])
            even.append(1 / visible)
    if not given:
        return math.nan, math.nan
    return sum(given) / len(given), sum(even) / len(even)


def crossed_pairs(places):
    """Lines run from word i to places[i] -> pairs that cross, that do not.

    Two lines that end at the same place do neither.
    """
    crossed = uncrossed = 0
    for i in range(len(places)):
        for later in range(i + 1, len(places)):
            crossed += places[i] > places[later]
            uncrossed += places[i] < places[later]
    return crossed, uncrossed


def keys_looked_at(weights):
    """exp of the entropy of each row of weights (n, m)."""
    numbers = []
    for row in weights:
        entropy = -sum(w * math.log(w) for w in row if w > 0)  # nats
        numbers.append(math.exp(entropy))
    return numbers


def in_turns(halves):
    """All sines, then all cosines -> sine, cosine, sine, cosine, …"""
    turns = []
    pairs = len(halves) // 2
    for i in range(pairs):
        turns.append(halves[i])  # a sine
        turns.append(halves[pairs + i])  # its cosine
    return np.array(turns)


def matrix_product(a, b):
    """(rows, inner) times (inner, columns) -> the product, its multiply-adds."""
    product = np.zeros((len(a), len(b[0])))
    multiply_adds = 0
    for i in range(len(a)):
        for j in range(len(b[0])):
            for k in range(len(b)):
                product[i, j] += a[i][k] * b[k][j]
                multiply_adds += 1
    return product, multiply_adds


def forward_multiply_adds(c, source_length, target_length):
    """One pair through a model of sizes c, a token and a matrix at a time."""
    keys = c.d_model * c.num_heads * c.d_k  # a matrix of queries or of keys
    values = outputs = c.d_model * c.num_heads * c.d_v
    # A query meets a key: a score, then its share of the average.
    one_pair = c.num_heads * (c.d_k + c.d_v)
    count = 0
    for _ in range(c.num_layers):  # encoder
        for _ in range(source_length):
            count += keys + keys + values  # its own query, key and value
            for _ in range(source_length):
                count += one_pair
            count += outputs + 2 * c.d_model * c.d_ff
    for _ in range(c.decoder_layers):
        for _ in range(source_length):
            count += keys + values  # of cross-attention
        for position in range(target_length):
            count += keys + keys + values
            for _ in range(position + 1):  # the future is masked
                count += one_pair
            count += outputs
            count += keys  # the query of cross-attention
            for _ in range(source_length):
                count += one_pair
            count += outputs + 2 * c.d_model * c.d_ff
    for _ in range(target_length):
        count += c.d_model * c.vocabulary_size  # logits
    return count


def faults_of_pairs(pairs, held_out, max_length, max_ratio):
    """Why each sentence pair is no good for training; "" where it is.

    held_out: the pairs that are kept for validation or for a test.
    """
    faults = []
    whole = [pair for pair in pairs if pair[0] and pair[1]]
    ratios = [len(target) / len(source) for source, target in whole]
    usual = statistics.median(ratios)
    held_out_sources = [letters_of(source) for source, _ in held_out]
    held_out_targets = [letters_of(target) for _, target in held_out]
    for i, (source, target) in enumerate(pairs):
        source_is_known = letters_of(source) in held_out_sources
        target_is_known = letters_of(target) in held_out_targets
        fault = ""
        if source == "" or target == "":
            fault = "empty"
        elif max(len(source), len(target)) > max_length:
            fault = "too long"
        else:
            ratio = len(target) / len(source) / usual
            if ratio > max_ratio or 1 / ratio > max_ratio:
                fault = "of unequal lengths"
            elif (source, target) in pairs[:i]:
                fault = "seen before"
            elif source_is_known and target_is_known:
                fault = "shared with held-out pairs"
        faults.append(fault)
    return faults


def letters_of(sentence):
    """Its letters, with their marks, and digits, without case; without any letter, all of it."""
    kept = ""
    for sign in sentence.casefold():
        is_mark = unicodedata.category(sign) in ("Mn", "Mc")
        if sign.isalnum() or is_mark:
            kept += sign
    has_letters = any(sign.isalpha() for sign in kept)
    return kept if has_letters else sentence


def tree_tokens(tree):
    """The tokens met on a walk around a tree [label, part, ...].

    A part is a word or a tree.
    """
    tokens = []
    waiting = [tree]  # the last one comes next
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            label, *parts = node
            tokens.append("(" + label)
            waiting.append(")" + label)  # on the way back
            for part in reversed(parts):
                waiting.append(part)
        elif node.startswith(")"):
            tokens.append(node)
        else:
            tokens.append("XX")
    return tokens
