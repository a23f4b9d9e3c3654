"""What a target must provide so that a draft can be trained for it, and the pocket target as the first example."""

from abc import ABC, abstractmethod
from pathlib import Path

import torch
import torch.nn.functional as F

from common.device import COMPUTE, amp
from target.config import MAX_POSITIONS
from target.generate import generate
from target.load import load_target
from target.model import Target
from target.tokenizer import SPECIAL, STOP_IDS, load_encoder, prompt_text


class TargetSource(ABC):
    """A frozen target: its facts, its embedding and head, the hidden states of chosen layers, and its own answers."""

    name: str
    hidden_size: int
    num_layers: int
    vocab_size: int
    max_positions: int
    rope_theta: float
    stop_ids: set[int]
    unused_id: int | None  # a token id that no text contains, fit to be the mask; None when there is none to be sure of
    embedding: torch.Tensor  # [vocab, hidden]
    head: torch.Tensor  # [vocab, hidden]

    @abstractmethod
    def features(self, ids: torch.Tensor, layer_ids: list[int]) -> torch.Tensor:
        """ids [B, S] -> outputs of those layers (the residual stream, not normed), concatenated: [B, S, K * hidden].

        Without gradient, in the compute dtype. Padding may stand behind a sequence, never before it.
        """

    @abstractmethod
    def answer(self, prompts: list[list[int]], new: int, temperature: float) -> list[list[int]]:
        """What the target itself says to each prompt: up to `new` ids, with the stop id that ended it."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of plain text, with what the target wants at its beginning."""

    @abstractmethod
    def encode_chat(self, messages: list[dict], tools: list[dict] | None = None) -> list[int]:
        """Ids of a conversation up to the point where the assistant is to speak."""

    @torch.no_grad()
    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Embeddings in the compute dtype."""
        return F.embedding(ids, self.embedding).to(COMPUTE)


class PocketTarget(TargetSource):
    """An exported pocket target (this project's Kimi-K2 folder with NVFP4 experts), run as the server runs it."""

    def __init__(self, net: Target, enc, name: str, compile: bool = False):
        c = net.c
        self.name = name
        self.net, self.enc = net, enc
        self.hidden_size, self.num_layers, self.vocab_size = c.hidden_size, c.num_hidden_layers, c.vocab_size
        self.max_positions, self.rope_theta = MAX_POSITIONS, c.rope_theta
        self.stop_ids, self.unused_id = STOP_IDS, SPECIAL["[UNK]"]
        self.embedding, self.head = net.embed_tokens.weight, net.lm_head.weight
        net.requires_grad_(False)
        self._forward = torch.compile(net) if compile else net

    @classmethod
    def load(cls, folder: Path, compile: bool = False) -> "PocketTarget":
        """From a checkpoint folder."""
        return cls(load_target(folder), load_encoder(folder / "tiktoken.model"), str(folder), compile)

    @torch.no_grad()
    def features(self, ids: torch.Tensor, layer_ids: list[int]) -> torch.Tensor:
        with amp():
            return self._forward(ids, quant_cache=True, taps=tuple(layer_ids))[1].to(COMPUTE)

    def answer(self, prompts: list[list[int]], new: int, temperature: float) -> list[list[int]]:
        return generate(self.net, prompts, new, temperature, self.stop_ids)

    def encode(self, text: str) -> list[int]:
        return self.enc.encode(text, allowed_special="all")

    def encode_chat(self, messages: list[dict], tools: list[dict] | None = None) -> list[int]:
        return self.encode(prompt_text(messages, tools))
