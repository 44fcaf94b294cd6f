"""The experiment with killed processes: which checkpoints a run went on from."""

from experiments.many_processes import resumed_steps


def test_the_steps_are_read_from_the_names_of_checkpoints_in_any_folder():
    said = "3 pairs\nresumed from my runs-2/step-000010.safetensors\nresumed from a/step-1000250.safetensors\n"
    assert resumed_steps(said) == [10, 1000250]
    assert resumed_steps("no checkpoint") == []
