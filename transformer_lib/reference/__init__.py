"""The paper's formulas once more, as slowly and as plainly as they can be written.

Each function works on NumPy arrays in float64, one number at a time: loops instead of broadcasting, names instead
of axes. The tests hold the library to these functions, and the chapters show them before the library's own. What serves
a chapter stands in the file of that chapter's name. Where a function and a file share a name, the name is the function.
"""

from .attention import attention
from .attention_as_lookup import additive_attention, softmax
from .attention_maps import crossed_pairs, keys_looked_at, share_of_weight
from .decoding import beam_search, every_sentence, greedy_search, length_penalty
from .embeddings import embedding, logits
from .encoder_decoder import transformer
from .evaluation import bleu, count_ngrams, perplexity
from .gpu_training import forward_flops
from .label_smoothing import label_smoothing_loss
from .layers import feed_forward, layer_norm
from .learning_rate import learning_rate
from .many_gpus import ring_all_reduce
from .masks import causal_mask
from .multi_head_attention import multi_head_attention
from .parsing import tree_tokens
from .positional_encoding import sinusoids
from .published_models import in_turns
from .self_attention import self_attention
from .sequence_to_sequence import recurrent_states
from .since_then import rotate
from .text_to_tensors import byte_pair_merges, byte_pair_pieces, join, padded_batch
from .training import adam_step
from .variations import maximum_path_length, steps_to_reach
from .your_own_corpus import faults_of_pairs, letters_of, words_of
