import pytest

from transformer_lib import learning_rate, reference


@pytest.mark.paper("eq-3")
@pytest.mark.parametrize(
    ("d_model", "warmup_steps"),
    [(512, 4000), (1024, 4000), (64, 7)],
)
def test_equation_3_is_a_line_and_then_an_inverse_root(d_model, warmup_steps):
    for step_num in [1, 2, 5, 7, 8, 100, 3999, 4000, 4001, 100_000]:
        expected = reference.learning_rate(step_num, d_model, warmup_steps)
        rate = learning_rate(step_num, d_model, warmup_steps)
        assert rate == pytest.approx(expected, rel=1e-12)
