"""Which pairs are no good for training."""

import statistics
import unicodedata


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
        elif source == target and words_of(source) > 2:
            fault = "untranslated"
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


def words_of(sentence):
    """How many words; three signs of a script without spaces count as a word more."""
    unspaced = ("THAI", "LAO", "KHMER", "MYANMAR", "CJK", "HIRAGANA", "KATAKANA")
    signs = 0
    for sign in sentence:
        if unicodedata.name(sign, "").startswith(unspaced):
            signs += 1
    return len(sentence.split()) + signs // 3


def letters_of(sentence):
    """Its letters, with their marks, and digits, without case; without any letter, all of it."""
    kept = ""
    for sign in sentence.casefold():
        is_mark = unicodedata.category(sign) in ("Mn", "Mc")
        if sign.isalnum() or is_mark:
            kept += sign
    has_letters = any(sign.isalpha() for sign in kept)
    return kept if has_letters else sentence
