"""A step with the cache gives what the whole decoder gives."""

import pytest
import torch
from tiny_models import SOURCE, VARIANTS, model

from transformer_lib.cache import start_decoding


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
def test_the_room_grows_with_the_sentence():
    m = model().eval()
    target_input = torch.randint(3, 11, (3, 40))
    expected = m.decode(target_input, m.encode(SOURCE), SOURCE)
    cache, stay = start_decoding(m, SOURCE, limit=1000), torch.tensor([True, False, True])
    for step in range(40):
        logits = cache.next_logits(target_input[:, step : step + 1])
        torch.testing.assert_close(logits[:, 0], expected[:, step])
        assert step < cache.layers[0].key.size(2) == cache.layers[0].value.size(2) <= max(16, 2 * step)
        if step == 20:
            cache.keep(stay)
            target_input, expected = target_input[stay], expected[stay]
