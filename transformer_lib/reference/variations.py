"""Table 1: who reads whom, and in how many steps."""


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
