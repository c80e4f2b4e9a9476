"""Blocks of tokens that are denoised at once."""

from typing import Annotated

from gptcalc.architecture.base import AtMost, Inner, Size, Strict
from gptcalc.architecture.mlp import ActivationName
from gptcalc.architecture.norms import ModelNorm


class Canvas(Strict, frozen=True, kw_only=True):
    """So many tokens that are denoised at once, step by step, behind a prompt (block diffusion, arXiv:2503.09573).

    The prompt, and each block that is done, pass the layers as in any decoder and leave keys and values. A block's
    tokens see all of these and each other, and leave none. They enter as norm(x + MLP(norm(e))): e is the mean of the
    token table's rows by the probabilities of the step before (self-conditioning, arXiv:2208.04202), 0 in the first
    step; the norm behind has no weight. Where layers have a factor, they have another one for the block's tokens.
    """

    length: Annotated[Size, AtMost(5)]  # tokens of a block
    d_ff: Inner  # channels inside the MLP
    activation: ActivationName = "geglu_tanh"  # of the MLP
    norm: ModelNorm  # in front of the MLP
