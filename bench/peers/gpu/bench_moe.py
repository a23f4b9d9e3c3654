"""Strobe's routed experts in NVFP4 beside humming-kernels on one Hopper GPU: the same weights, activations and choices of
experts through both, in one process.

    bench_moe.py --strobe LIBRARY --output FILE.json [--tokens 1,8,16,64,128]

LIBRARY is build/cuda/bench/peers/gpu/libstrobe_peer.so (scripts/build cuda-release strobe_peer). Needs torch 2.11 or later with
CUDA, and humming-kernels 0.1.20 where Python finds it.

384 experts, 8 a token, hidden 7168, inner 2048: a layer of Kimi-K2. Strobe's time has everything that follows the router: grouping,
both products, SwiGLU, the sum over experts. humming-kernels' has its two products alone, for tokens that lie grouped before the
clock starts. The weights are those of four experts, again and again. Errors are against float32 over the same weights,
||x - y|| / ||y||; for humming-kernels SwiGLU and the sum are torch's, outside the clock. Times: medians of replays of a CUDA graph
of several launches, each with choices of its own, so that weights come from memory.
"""
import argparse
import ctypes
import sys
from pathlib import Path

import torch

from measuring import measure, write

EXPERTS, TOP_K, HIDDEN, INNER, DISTINCT = 384, 8, 7168, 2048, 4
EXPERT_BYTES = 3 * HIDDEN * INNER * 9 / 16  # four bits a weight and an e4m3 scale for 16
COPIES = {1: 24, 8: 8, 16: 6}  # launches a graph; 4 otherwise
NUMBERS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


class StrobeMoe(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in (
        "gate_up", "down", "gate_scales", "down_scales", "x", "ids", "id_weights", "y", "workspace")]
    _fields_ += [(name, ctypes.c_int32) for name in ("experts", "hidden", "inter", "top_k", "tokens")]


class Matrix:
    """The weights [rows, columns] of DISTINCT experts: codes, two a byte, the even column low; e4m3 scales; a scale of all."""

    def __init__(self, rows: int, columns: int):
        self.rows, self.columns = rows, columns
        self.codes = torch.randint(0, 256, (DISTINCT, rows, columns // 2), dtype=torch.uint8, device="cuda")
        self.scales = torch.randint(0x28, 0x40, (DISTINCT, rows, columns // 16), dtype=torch.uint8, device="cuda")
        self.scale = 0.7 * columns ** -0.5

    def exact(self, expert: int) -> torch.Tensor:
        codes = torch.stack((self.codes[expert] & 15, self.codes[expert] >> 4), -1).view(self.rows, self.columns)
        scales = self.scales[expert].view(torch.float8_e4m3fn).float().repeat_interleave(16, 1)
        return NUMBERS.cuda()[codes.long()] * scales * self.scale

    def of_all(self) -> torch.Tensor:
        return torch.full((EXPERTS,), self.scale, device="cuda")


class Case:
    """Tokens, and several choices of experts for them."""

    def __init__(self, tokens: int):
        torch.manual_seed(tokens)
        self.tokens = tokens
        self.x = torch.randn(tokens, HIDDEN, device="cuda").bfloat16()
        self.ids = [torch.rand(tokens, EXPERTS, device="cuda").topk(TOP_K).indices.int() for _ in range(COPIES.get(tokens, 4))]
        self.weights = torch.rand(tokens, TOP_K, device="cuda")
        self.distinct = sum(ids.unique().numel() for ids in self.ids) / len(self.ids)

    def rates(self, us: float) -> dict:
        return {"weights_tb_s": round(self.distinct * EXPERT_BYTES / us * 1e-6, 2)}

    def exact(self, gate_up: Matrix, down: Matrix) -> torch.Tensor:
        """Of the first choice, in float32."""
        out = torch.zeros(self.tokens, HIDDEN, device="cuda")
        for expert in range(DISTINCT):
            gate, up = (self.x.float() @ gate_up.exact(expert).T).chunk(2, -1)
            y = (torch.nn.functional.silu(gate) * up) @ down.exact(expert).T
            out += y * (self.weights * (self.ids[0] % DISTINCT == expert)).sum(-1, keepdim=True)
        return out


class Strobe:
    def __init__(self, library: ctypes.CDLL, gate_up: Matrix, down: Matrix):
        self.library = library
        library.strobe_nvfp4_bytes.restype = library.strobe_moe_workspace_bytes.restype = ctypes.c_int64
        self.gate_up = self.pack(gate_up, lambda codes, scales, to: library.strobe_nvfp4_pack_gate_up(
            codes, scales, ctypes.c_int64(INNER), ctypes.c_int64(HIDDEN), to))
        self.down = self.pack(down, lambda codes, scales, to: library.strobe_nvfp4_pack(
            codes, scales, ctypes.c_int64(HIDDEN), ctypes.c_int64(INNER), to))
        self.scales = gate_up.of_all(), down.of_all()

    def pack(self, matrix: Matrix, pack) -> torch.Tensor:
        size = self.library.strobe_nvfp4_bytes(ctypes.c_int64(matrix.rows), ctypes.c_int64(matrix.columns))
        packed = torch.empty(DISTINCT, size, dtype=torch.uint8)
        codes, scales = matrix.codes.cpu(), matrix.scales.cpu()
        for expert in range(DISTINCT):
            pack(*(ctypes.c_void_p(tensor[expert].data_ptr()) for tensor in (codes, scales, packed)))
        return packed.cuda().repeat(EXPERTS // DISTINCT, 1)

    def launches(self, case: Case) -> tuple:
        y = torch.empty(case.tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)
        call = StrobeMoe(self.gate_up.data_ptr(), self.down.data_ptr(), self.scales[0].data_ptr(), self.scales[1].data_ptr(),
                         case.x.data_ptr(), None, case.weights.data_ptr(), y.data_ptr(), None,
                         EXPERTS, HIDDEN, INNER, TOP_K, case.tokens)
        workspace = torch.empty(self.library.strobe_moe_workspace_bytes(ctypes.byref(call)), device="cuda", dtype=torch.uint8)
        call.workspace = workspace.data_ptr()

        def launch(ids):
            call.ids = ids.data_ptr()
            self.library.strobe_moe(ctypes.byref(call), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            return y, workspace

        return [lambda ids=ids: launch(ids) for ids in case.ids], lambda: launch(case.ids[0])[0]


class Humming:
    def __init__(self, gate_up: Matrix, down: Matrix, tokens: list):
        from humming import dtypes, ops
        from humming.config import ComputeConfig, GemmType, LayerConfig
        from humming.kernel.humming import HummingKernel
        from humming.testing.tuning import generate_heuristics_configs
        from humming.transform import transform_humming_tensors
        self.launch_kernel = ops.launch_kernel
        compute = ComputeConfig(gemm_type=GemmType.INDEXED)

        def layer(matrix, experts):
            return LayerConfig(sm_version=90, shape_n=matrix.rows, shape_k=matrix.columns, num_experts=experts,
                               a_dtype=dtypes.bfloat16, b_dtype=dtypes.float4e2m1, c_dtype=dtypes.bfloat16,
                               bs_dtype=dtypes.float8e4m3, weight_scale_group_size=16, weight_scale_type="group",
                               weight_scale_2_type="tensor")

        self.tensors = []
        for matrix in (gate_up, down):
            tensors = transform_humming_tensors(layer(matrix, DISTINCT), {
                "weight": matrix.codes.view(torch.int32), "weight_scale": matrix.scales.view(torch.float8_e4m3fn),
                "weight_scale_2": matrix.of_all()[:DISTINCT]})
            self.tensors.append({
                name: tensor if tensor is None or not tensor.dim() or tensor.shape[0] != DISTINCT else
                tensor.repeat((EXPERTS // DISTINCT,) + (1,) * (tensor.dim() - 1)) for name, tensor in tensors.items()})

        self.kernels = {count: [] for count in tokens}  # of both products: rows of a block, compiled
        for matrix in (gate_up, down):
            config = layer(matrix, EXPERTS)
            chosen = generate_heuristics_configs(config, compute, [count * TOP_K for count in tokens])
            compiled = HummingKernel.prepare_kernels(config.to_str(), compute.to_str(), [(0, 1 << 30, one) for one in chosen],
                                                     device=0).reshape(-1, 4)
            for count, one, kernel in zip(tokens, chosen, compiled):
                self.kernels[count].append((one["block_shape"][0], kernel))

    @staticmethod
    def group(ids: torch.Tensor, block: int) -> dict:
        """The pairs of a token and a choice by expert, each expert's padded to whole blocks."""
        flat, pairs, experts = ids.reshape(-1), [], []
        for expert in flat.unique().tolist():
            own = (flat == expert).nonzero().flatten()
            blocks = -(-own.numel() // block)
            pairs.append(torch.nn.functional.pad(own, (0, blocks * block - own.numel()), value=flat.numel()))
            experts += [expert] * blocks
        of_device = {"dtype": torch.int32, "device": "cuda"}
        return {"sorted_ids": torch.cat(pairs).int(), "expert_ids": torch.tensor(experts, **of_device),
                "num_tokens_padded": torch.tensor([len(experts) * block], **of_device)}

    def launches(self, case: Case) -> tuple:
        pairs = case.tokens * TOP_K
        inner = torch.randn(pairs, INNER, device="cuda").bfloat16()
        outs = [torch.empty(pairs, rows, device="cuda", dtype=torch.bfloat16) for rows in (2 * INNER, HIDDEN)]
        locks = torch.zeros(2048, dtype=torch.int32, device="cuda")
        kernels = self.kernels[case.tokens]
        groups = [[self.group(ids, block) for block, _ in kernels] for ids in case.ids]

        def product(which, copy):
            self.launch_kernel(configs=kernels[which][1], inputs=(case.x, inner)[which], outputs=outs[which], locks=locks,
                               top_k=(TOP_K, 1)[which], **groups[copy][which], **self.tensors[which])

        def launch(copy):
            product(0, copy)
            product(1, copy)

        def result():
            product(0, 0)
            gate, up = outs[0].float().chunk(2, -1)
            inner.copy_(torch.nn.functional.silu(gate) * up)
            product(1, 0)
            return (outs[1].float().view(case.tokens, TOP_K, HIDDEN) * case.weights.unsqueeze(-1)).sum(1)

        return [lambda copy=copy: launch(copy) for copy in range(len(case.ids))], result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strobe", required=True, type=Path, help="libstrobe_peer.so")
    parser.add_argument("--output", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--tokens", default="1,8,16,64,128")
    args = parser.parse_args()
    tokens = list(map(int, args.tokens.split(",")))
    torch.manual_seed(1)
    gate_up, down = Matrix(2 * INNER, HIDDEN), Matrix(HIDDEN, INNER)
    kernels = [("Strobe", Strobe(ctypes.CDLL(str(args.strobe.resolve())), gate_up, down))]
    try:
        kernels.append(("humming-kernels, products alone", Humming(gate_up, down, tokens)))
    except ImportError as failure:
        print(f"humming-kernels: {failure}", file=sys.stderr)
    rows = []
    for case in map(Case, tokens):
        exact = case.exact(gate_up, down)
        for name, kernel in kernels:
            row = measure(name, lambda: kernel.launches(case), exact, case.rates)
            rows.append({"tokens": case.tokens, "distinct_experts": case.distinct, **row})
            print(rows[-1], flush=True)
    write(args.output, "routed experts in NVFP4, medians of graph replays, weights from memory", rows,
          experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, inner=INNER)


if __name__ == "__main__":
    main()
