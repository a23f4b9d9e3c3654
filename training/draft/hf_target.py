"""Any causal language model of transformers as the target of a draft."""

from pathlib import Path

import torch

from common.device import COMPUTE, DEVICE
from target.generate import cut_after_stop

from .target_source import TargetSource


class HfTarget(TargetSource):
    """A folder (or hub name) that AutoModelForCausalLM and AutoTokenizer can load.

    Features come from output_hidden_states: hidden_states[0] is the embedding, so the output of layer L is
    hidden_states[L + 1]. The last entry is normed, so the last layer cannot be a feature.
    """

    def __init__(self, model, tokenizer, name: str):
        self.name = name
        self.model = model.to(DEVICE).eval().requires_grad_(False)
        self.tokenizer = tokenizer
        c = model.config.get_text_config()
        self.hidden_size, self.num_layers = c.hidden_size, c.num_hidden_layers
        head = model.get_output_embeddings()
        if head is None or getattr(head, "bias", None) is not None:
            raise ValueError(f"{name}: a DFlash target needs an output head that is one matrix without a bias")
        self.embedding, self.head = model.get_input_embeddings().weight, head.weight
        if self.head.shape[-1] != self.hidden_size or self.embedding.shape[-1] != self.hidden_size:
            raise ValueError(
                f"{name}: embedding {tuple(self.embedding.shape)} and head {tuple(self.head.shape)} must both be as "
                f"wide as the hidden states, {self.hidden_size}"
            )
        self.vocab_size = self.head.shape[0]
        self.max_positions = getattr(c, "max_position_embeddings", 32768)
        self.rope_theta = float(_rope_theta(c))
        self.stop_ids = _stop_ids(model, tokenizer, name)
        self.unused_id = len(tokenizer) if len(tokenizer) < self.vocab_size else tokenizer.unk_token_id
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self.stop_ids)

    @classmethod
    def load(cls, folder: str | Path) -> "HfTarget":
        """Loads model and tokenizer: the checkpoint's own dtype on a GPU, float32 on a CPU. No remote code is run."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        dtype = "auto" if DEVICE == "cuda" else torch.float32
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        return cls(model, AutoTokenizer.from_pretrained(folder), str(folder))

    @torch.no_grad()
    def features(self, ids: torch.Tensor, layer_ids: list[int]) -> torch.Tensor:
        # the model without its head
        out = self.model.base_model(input_ids=ids, output_hidden_states=True, use_cache=False)
        if len(out.hidden_states) != self.num_layers + 1:
            raise ValueError(
                f"{self.name}: {len(out.hidden_states)} hidden states from {self.num_layers} layers, want one more"
            )
        return torch.cat([out.hidden_states[i + 1] for i in layer_ids], -1).to(COMPUTE)

    @torch.no_grad()
    def answer(self, prompts: list[list[int]], new: int, temperature: float) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[self._pad] * (width - len(p)) + p for p in prompts], device=DEVICE)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=DEVICE)
        # spelled out, as the folder's generation_config may hold other values
        if temperature:
            sampling = dict(do_sample=True, temperature=temperature, top_k=0, top_p=1.0)
        else:
            sampling = dict(do_sample=False, temperature=None, top_k=None, top_p=None)
        out = self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=new,
            eos_token_id=sorted(self.stop_ids),
            pad_token_id=self._pad,
            **sampling,
        )
        return [cut_after_stop(row, self.stop_ids) for row in out[:, width:].tolist()]

    def encode(self, text: str) -> list[int]:
        return self.tokenizer(text)["input_ids"]

    def encode_chat(self, messages: list[dict], tools: list[dict] | None = None) -> list[int]:
        if self.tokenizer.chat_template is None:
            raise ValueError(f'{self.name} has no chat template: give "prompt" or "text" lines instead of "messages"')
        while messages and messages[-1]["role"] == "assistant":
            messages = messages[:-1]
        text = self.tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def _rope_theta(c) -> float:
    """The base of the rotary positions, wherever the config has it; 10000 is the transformers default."""
    parameters = getattr(c, "rope_parameters", None) or {}
    if any(isinstance(v, dict) for v in parameters.values()):  # one set per kind of layer
        parameters = parameters.get("full_attention") or next(iter(parameters.values()))
    return parameters.get("rope_theta") or getattr(c, "rope_theta", None) or 10000.0


def _stop_ids(model, tokenizer, name: str) -> set[int]:
    """All ids that end an answer, from generation_config or the tokenizer."""
    found = getattr(model.generation_config, "eos_token_id", None)
    found = tokenizer.eos_token_id if found is None else found
    if found is None:
        raise ValueError(f"{name}: neither generation_config nor the tokenizer names an end-of-text token")
    return set(found) if isinstance(found, list) else {found}
