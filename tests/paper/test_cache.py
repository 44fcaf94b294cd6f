"""A step with the cache gives what the whole decoder gives."""

import pytest
import torch
from tiny_models import SOURCE, VARIANTS, model

from transformer_lib.cache import LayerCache, start_decoding


@pytest.mark.paper("decode")
@pytest.mark.parametrize("changes", VARIANTS)
@torch.no_grad()
def test_each_cached_step_gives_the_last_logits_of_the_whole_decoder(changes):
    m = model(**changes).eval()
    target_input = torch.randint(3, 11, (3, 6))
    target_input[:, 0] = m.config.bos_id
    expected = m.decode(target_input, m.encode(SOURCE), SOURCE)
    cache = start_decoding(m, SOURCE, limit=6)
    for step in range(6):
        logits = cache.next_logits(target_input[:, step : step + 1])
        torch.testing.assert_close(logits[:, 0], expected[:, step])


@torch.no_grad()
def test_sentences_may_leave_a_cache():
    m = model().eval()
    target_input = torch.randint(3, 11, (3, 4))
    expected = m.decode(target_input, m.encode(SOURCE), SOURCE)
    cache = start_decoding(m, SOURCE, limit=4)
    cache.next_logits(target_input[:, :1])
    stay = torch.tensor([True, False, True])
    cache.keep(stay)
    logits = cache.next_logits(target_input[stay, 1:2])
    torch.testing.assert_close(logits[:, 0], expected[stay, 1])


@pytest.mark.paper("causal-mask", "decode")
def test_a_candidate_depends_on_its_own_past_and_on_no_other_candidate(monkeypatch):
    def append(cache, key, value):  # as LayerCache does, but without writing in place, which gradients forbid
        cache.past = [torch.cat([old, new], 2) for old, new in zip(cache.past, (key, value), strict=True)]
        return tuple(cache.past)

    monkeypatch.setattr(LayerCache, "past", [torch.zeros(3, 2, 0, 3).double(), torch.zeros(3, 2, 0, 5).double()], False)
    monkeypatch.setattr(LayerCache, "append", append)
    m = model(num_layers=2).eval()
    embedded = []
    m.embedding.register_forward_hook(lambda _module, _inputs, output: embedded.append(output) or output.retain_grad())
    cache = start_decoding(m, SOURCE, limit=3, beams=2)
    embedded.clear()
    tokens = torch.tensor([[3, 4]]).expand(3, 2)
    # Candidates 0 and 1; then both extend candidate 1; then each extends itself.
    descends = torch.tensor(
        [
            [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]],
            [[0, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 0]],
            [[0, 1, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]],
        ]
    ).bool()
    for step in range(3):
        cells = 2 * (step + 1)
        mask = descends[step][:, :cells].expand(3, 1, 2, cells)
        logits = cache.next_logits(tokens, mask)
        for candidate in range(2):
            for e in embedded:
                e.grad = None
            logits[0, candidate].sum().backward(retain_graph=True)
            reached = torch.cat([e.grad[0].abs().sum(-1) > 0 for e in embedded])
            assert reached.tolist() == descends[step, candidate, :cells].tolist()
