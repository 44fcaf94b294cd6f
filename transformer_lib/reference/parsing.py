"""A tree as a row of tokens."""


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
