"""Documents (a prompt and what the target answered) and the rows of tokens that training works on."""

from pathlib import Path

import torch

Document = tuple[list[int], list[int]]  # prompt ids, response ids


class Rows:
    """Token rows ids [N, S] and labels [N, S]: 0 for prompt and padding, a response's number (from 1) elsewhere."""

    def __init__(self, ids: torch.Tensor, labels: torch.Tensor):
        if ids.shape != labels.shape or ids.dim() != 2:
            raise ValueError(
                f"ids {tuple(ids.shape)} and labels {tuple(labels.shape)} must have one shape [rows, tokens]"
            )
        self.ids, self.labels = ids, labels

    def split(self, held_out: int) -> tuple["Rows", "Rows"]:
        """(the rows to train on, the last `held_out` rows)."""
        cut = len(self.ids) - held_out
        if cut < 1 or held_out < 1:
            raise ValueError(f"{len(self.ids)} rows cannot give {held_out} for measuring and one for training")
        return Rows(self.ids[:cut], self.labels[:cut]), Rows(self.ids[cut:], self.labels[cut:])

    def save(self, file: Path) -> None:
        """Writes both tensors."""
        torch.save({"ids": self.ids, "labels": self.labels}, file)

    @staticmethod
    def load(file: Path) -> "Rows":
        """Reads what save() wrote."""
        d = torch.load(file, weights_only=True)
        return Rows(d["ids"], d["labels"])


def pack(documents: list[Document], seq: int, one_per_row: bool) -> Rows:
    """Puts documents into rows of `seq` tokens.

    one_per_row: each document has its own row. That suits targets that were not trained on rows of several documents.
    Otherwise rows are filled one after the other. What does not fit into an empty row is cut at its end; a document
    whose response would be cut to nothing is left out.
    """
    ids: list[list[int]] = []
    labels: list[list[int]] = []
    for number, (prompt, response) in enumerate(documents, 1):
        response = response[: max(0, seq - len(prompt))]
        if not response:
            continue
        tokens, marks = prompt + response, [0] * len(prompt) + [number] * len(response)
        if ids and not one_per_row and len(ids[-1]) + len(tokens) <= seq:
            ids[-1] += tokens
            labels[-1] += marks
        else:
            ids.append(tokens)
            labels.append(marks)
    if not ids:
        raise ValueError(f"none of {len(documents)} documents has a response within {seq} tokens")
    width = seq if not one_per_row else max(map(len, ids))
    padded = [torch.tensor([r + [0] * (width - len(r)) for r in x], dtype=torch.int32) for x in (ids, labels)]
    return Rows(*padded)
