"""Trains the pocket target: next-token loss, balanced experts, and NVFP4 + fp8 cache in the loop for the last fifth."""

from dataclasses import dataclass

import torch

from common.device import DEVICE, amp
from common.loss import chunked_cross_entropy
from common.optim import Optimizers
from common.progress import Budget, log, warm_then_decay

from .config import TargetConfig
from .model import Target

QUANTISED_FROM = 0.80  # of the budget
BALANCE_STEP = 0.001  # how far an expert's bias moves per step (DeepSeek-V3's loss-free balancing)


@dataclass
class TargetOptions:
    """Batch shape and progress interval of target training."""

    seq: int = 2048
    batch: int = 32
    compile: bool = True
    report_every: int = 200


class _Batches:
    """Random order over sequences of seq + 1 tokens; a new order after each pass."""

    def __init__(self, tokens: torch.Tensor, seq: int, batch: int):
        self._count = (len(tokens) - 1) // seq
        if self._count < batch:
            raise ValueError(
                f"{len(tokens)} tokens give {self._count} sequences of {seq}, fewer than a batch of {batch}"
            )
        self._tokens, self._seq, self._batch = tokens.to(DEVICE), seq, batch
        self._order, self._at = torch.randperm(self._count), 0

    def next(self) -> torch.Tensor:
        """[batch, seq + 1] int64."""
        if self._at + self._batch > self._count:
            self._order, self._at = torch.randperm(self._count), 0
        rows = self._order[self._at : self._at + self._batch].to(DEVICE)
        self._at += self._batch
        return self._tokens[rows[:, None] * self._seq + torch.arange(self._seq + 1, device=DEVICE)].long()


def train_target(c: TargetConfig, tokens: torch.Tensor, budget: Budget, o: TargetOptions) -> Target:
    """tokens [N] int32: documents one after the other. Returns the trained model in eval mode."""
    net = Target(c).to(DEVICE)
    batches = _Batches(tokens, o.seq, o.batch)
    optimizers = Optimizers(net)
    forward = torch.compile(net) if o.compile else net
    moes = net.moe_layers()
    net.train()
    quant = False
    loss = largest = torch.zeros(())
    while budget.fraction() < 1:
        if not quant and budget.fraction() > QUANTISED_FROM:
            quant = True
            log("quantisation-aware from step", budget.step)
        rate = warm_then_decay(budget, warm_steps=100, decay_from=0.5, lowest=0.02)
        batch = batches.next()
        with amp():
            hidden = forward(batch[:, :-1], quant_weights=quant, quant_cache=quant)
            labels = batch[:, 1:].reshape(-1)
            loss = chunked_cross_entropy(hidden.flatten(0, 1), net.lm_head.weight, labels) / labels.numel()
        loss.backward()
        optimizers.step(rate)
        for m in moes:  # an expert with less than its share of tokens becomes likelier
            m.e_score_correction_bias.add_(BALANCE_STEP * torch.sign(m.load.mean() - m.load))
            largest = (m.load / m.load.sum()).max()
            m.load.zero_()
        budget.step += 1
        if budget.step % o.report_every == 0 or budget.step == 20:
            speed = budget.step * o.batch * o.seq / budget.seconds() / 1e3
            log(
                f"target step {budget.step} loss {loss.item():.4f} tok/s {speed:.0f}k lr {rate:.3f}",
                f"maxload {largest.item():.3f}",
            )
    net.eval()
    seen = budget.step * o.batch * o.seq / 1e6
    log(f"target done: steps {budget.step}, tokens {seen:.0f}M, loss {loss.item():.4f}")
    if not torch.isfinite(loss):
        raise FloatingPointError(f"the target's loss ended as {loss.item()}")
    return net
