#!/usr/bin/env python3
"""Tests of the parts that need torch; no test runner needed: python selftest.py

The oracles are independent where there is one: naive loops, jinja2, the committed models/pocket-k2, transformers, and
z-lab's dflash package if it is installed. The generator has tests of its own in tests/training/.
"""

import copy
import json
import random
import tempfile
import unittest
from pathlib import Path

import torch

import smoke
import wordproblems as wp
from common.checkpoint import read_json, read_tensors, write_tensors
from common.layers import rope_half, rope_interleaved
from common.loss import chunked_cross_entropy
from common.optim import newton_schulz
from common.progress import Budget, warm_then_decay
from draft.blocks import FIRST_ANCHOR, anchor_weights, cut_blocks
from draft.config import DraftConfig, default_layer_ids
from draft.documents import Rows, pack
from draft.evaluate import evaluate_draft, replay
from draft.export import check_draft_export, draft_config_json, export_draft, load_draft, read_draft_config
from draft.hf_target import HfTarget
from draft.model import Draft
from draft.target_source import PocketTarget
from draft.train import DraftOptions, train_draft
from target import nvfp4
from target.config import TINY, TargetConfig
from target.corpus import build_tokens, document
from target.export import CHAT_TEMPLATE, config_json, export_target, quant_json, tokenizer_json
from target.generate import generate
from target.load import check_export, load_target, read_config
from target.model import Target
from target.tokenizer import SPECIAL, STOP_IDS, chat_text, load_encoder, prompt_text

POCKET = Path(__file__).resolve().parents[1] / "models" / "pocket-k2"
TINY_DRAFT = DraftConfig(64, 2, 96, 2, 1, 32, block_size=4, target_layer_ids=[0, 1], num_target_layers=3)


def layout(folder: Path) -> dict[str, tuple]:
    """Name -> (dtype, shape) of every tensor of a folder."""
    return {k: (t.dtype, tuple(t.shape)) for k, t in read_tensors(folder).items()}


class Nvfp4(unittest.TestCase):
    def test_decoding_is_the_format(self):
        """Against the format spelled out value by value."""
        torch.manual_seed(1)
        w = torch.randn(6, 48) * torch.logspace(-3, 1, 6)[:, None]
        packed, scale, global_scale = nvfp4.quantise(w)
        self.assertEqual((packed.dtype, packed.shape), (torch.uint8, (6, 24)))
        self.assertEqual((scale.dtype, scale.shape), (torch.float8_e4m3fn, (6, 3)))
        self.assertEqual((global_scale.dtype, global_scale.shape), (torch.float32, ()))
        magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        got = nvfp4.dequantise(packed, scale, global_scale)
        for r in range(6):
            for i in range(48):
                byte = int(packed[r, i // 2])
                code = byte >> 4 if i % 2 else byte & 15
                value = magnitudes[code & 7] * (-1 if code & 8 else 1)
                want = torch.tensor(value) * (scale[r, i // 16].float() * global_scale)
                self.assertEqual(got[r, i].item(), want.item())

    def test_rounds_to_the_nearest_value(self):
        torch.manual_seed(2)
        w = torch.randn(4, 32)
        packed, scale, global_scale = nvfp4.quantise(w)
        unit = (scale.float() * global_scale).repeat_interleave(16, -1)
        all_values = torch.cat([nvfp4.LEVELS, -nvfp4.LEVELS])
        nearest = (w[..., None] - all_values * unit[..., None]).abs().amin(-1)
        self.assertTrue(torch.allclose((w - nvfp4.dequantise(packed, scale, global_scale)).abs(), nearest, atol=1e-6))

    def test_ties_go_to_the_even_code(self):
        # the 6 makes the block scale 448 and the unit exactly 1/448 of the global scale's 448
        w = torch.zeros(1, 16)
        w[0, :8] = torch.tensor([6.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
        got = nvfp4.dequantise(*nvfp4.quantise(w))[0, :8]
        self.assertTrue(torch.allclose(got, torch.tensor([6.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0])), got)

    def test_fake_quantisation_is_quantisation(self):
        torch.manual_seed(3)
        w = (torch.randn(3, 8, 32) * torch.tensor([0.01, 1.0, 30.0])[:, None, None]).requires_grad_()
        fake = nvfp4.fake_quantise(w)
        for e in range(3):
            self.assertTrue(
                torch.allclose(fake[e], nvfp4.dequantise(*nvfp4.quantise(w[e].detach())), rtol=1e-6, atol=0)
            )
        fake.backward(torch.full_like(fake, 2.0))
        self.assertTrue(torch.equal(w.grad, torch.full_like(w, 2.0)))

    def test_edges(self):
        zero = nvfp4.quantise(torch.zeros(2, 16))
        self.assertTrue(torch.equal(nvfp4.dequantise(*zero), torch.zeros(2, 16)))
        mixed = torch.zeros(1, 32)
        mixed[0, 16:] = 5.0
        self.assertTrue(torch.allclose(nvfp4.dequantise(*nvfp4.quantise(mixed)), mixed))
        with self.assertRaisesRegex(ValueError, "multiple of 16"):
            nvfp4.quantise(torch.zeros(2, 24))
        x = torch.tensor([1e6, -1e6, 0.1, 448.0])
        self.assertEqual(nvfp4.fake_e4m3(x).tolist(), [448.0, -448.0, 0.1015625, 448.0])


class Layout(unittest.TestCase):
    """What is exported has the layout of the committed models, to the byte where there are no weights."""

    def test_target(self):
        with tempfile.TemporaryDirectory() as tmp:
            folder = Path(tmp)
            export_target(Target(TargetConfig()), POCKET / "target" / "tiktoken.model", folder)
            self.assertEqual(layout(folder), layout(POCKET / "target"))
            ours = sorted(f.name for f in folder.iterdir())
            self.assertEqual(ours, sorted(f.name for f in (POCKET / "target").iterdir()))
            for name in ours:
                if not name.endswith(".safetensors"):
                    self.assertEqual((folder / name).read_bytes(), (POCKET / "target" / name).read_bytes(), name)
                else:
                    self.assertEqual((folder / name).stat().st_size, (POCKET / "target" / name).stat().st_size, name)

    def test_draft(self):
        with tempfile.TemporaryDirectory() as tmp:
            folder = Path(tmp)
            export_draft(Draft(DraftConfig()), folder)
            self.assertEqual(layout(folder), layout(POCKET / "draft"))
            self.assertEqual((folder / "config.json").read_bytes(), (POCKET / "draft" / "config.json").read_bytes())

    def test_configs_come_back(self):
        self.assertEqual(read_config(POCKET / "target"), TargetConfig())
        self.assertEqual(read_draft_config(POCKET / "draft"), DraftConfig())
        for value in (config_json(TINY), quant_json(TINY), tokenizer_json(), draft_config_json(TINY_DRAFT)):
            self.assertEqual(json.loads(json.dumps(value)), value)


class Checkpoints(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        self.tmp = tempfile.TemporaryDirectory()
        self.folder = Path(self.tmp.name)
        self.net = Target(TINY).eval()
        export_target(self.net, POCKET / "target" / "tiktoken.model", self.folder)
        self.ids = torch.randint(0, 3840, (2, 33))

    def tearDown(self):
        self.tmp.cleanup()

    def rewrite(self, change) -> None:
        tensors = read_tensors(self.folder)
        change(tensors)
        write_tensors(tensors, self.folder)

    def test_sound_export_passes(self):
        loaded = check_export(self.net, self.folder, self.ids)
        w = dict(loaded.named_parameters())["layers.1.mlp.w_up"]
        self.assertTrue(torch.allclose(w, nvfp4.fake_quantise(self.net.layers[1].mlp.w_up), rtol=1e-6, atol=0))

    def test_a_changed_nibble_is_noticed(self):
        def change(t):
            t["model.layers.1.mlp.experts.2.up_proj.weight"][0, 0] ^= 0x10

        self.rewrite(change)
        with self.assertRaisesRegex(ValueError, "experts.2.up_proj.weight"):
            check_export(self.net, self.folder, self.ids)

    def test_another_model_is_noticed(self):
        other = copy.deepcopy(self.net)
        with torch.no_grad():
            other.layers[2].self_attn.q_a_proj.weight[0, 0] += 1
        with self.assertRaisesRegex(ValueError, "q_a_proj"):
            check_export(other, self.folder, self.ids)

    def test_wrong_files_are_refused_by_name(self):
        cases = {
            "lacks lm_head": lambda t: t.pop("lm_head.weight"),
            "lacks a scale of model.layers.1.mlp.experts.0": lambda t: t.pop(
                "model.layers.1.mlp.experts.0.gate_proj.weight_scale"
            ),
            "no place for.*extra": lambda t: t.update(extra=torch.zeros(1)),
            r"norm.weight has shape \(3,\)": lambda t: t.update({"model.norm.weight": torch.zeros(3)}),
            "norm.weight holds values that are not finite": lambda t: t["model.norm.weight"].fill_(float("nan")),
        }
        sound = read_tensors(self.folder)
        for message, change in cases.items():
            with self.subTest(message):
                write_tensors({k: v.clone() for k, v in sound.items()}, self.folder)
                self.rewrite(change)
                with self.assertRaisesRegex(ValueError, message):
                    load_target(self.folder)

    def test_draft_export(self):
        draft = Draft(TINY_DRAFT)
        folder = self.folder / "draft"
        export_draft(draft, folder)
        check_draft_export(draft, folder)
        with torch.no_grad():
            draft.fc.weight[0, 0] += 1
        with self.assertRaisesRegex(ValueError, "fc.weight"):
            check_draft_export(draft, folder)

    def test_shards(self):
        import common.checkpoint as checkpoint

        limit, checkpoint.SHARD_BYTES = checkpoint.SHARD_BYTES, 1000
        try:
            tensors = {f"t{i}": torch.full((60,), float(i)) for i in range(9)}
            folder = self.folder / "shards"
            folder.mkdir()
            write_tensors(tensors, folder)
            index = read_json(folder / "model.safetensors.index.json")
            self.assertEqual(index["metadata"]["total_size"], 9 * 240)
            self.assertEqual(len(list(folder.glob("*.safetensors"))), 3)
            self.assertEqual(set(index["weight_map"]), set(tensors))
            self.assertEqual(
                {k: v.tolist() for k, v in read_tensors(folder).items()}, {k: v.tolist() for k, v in tensors.items()}
            )
            checkpoint.SHARD_BYTES = limit
            write_tensors(tensors, folder)  # no shard of the former files stays
            self.assertEqual([f.name for f in folder.iterdir()], ["model.safetensors"])
        finally:
            checkpoint.SHARD_BYTES = limit
        with self.assertRaises(FileNotFoundError):
            read_tensors(self.folder / "nowhere")


class TargetModel(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.net = Target(TINY).eval().requires_grad_(False)

    def test_cached_generation_is_the_full_forward(self):
        prompts = [[5, 6, 7, 8, 9], [100, 101], [3000] * 9]
        outs = generate(self.net, prompts, 12, 0, {SPECIAL["[EOS]"]})
        for prompt, out in zip(prompts, outs):
            ids = list(prompt)
            for tok in out:
                logits = self.net.logits(self.net(torch.tensor([ids]), quant_cache=True)[0, -1])
                self.assertEqual(logits.argmax().item(), tok)
                ids.append(tok)
            self.assertTrue(len(out) == 12 or out[-1] == SPECIAL["[EOS]"])
        with self.assertRaisesRegex(ValueError, "empty prompt"):
            generate(self.net, [[1], []], 4, 0, STOP_IDS)
        with self.assertRaisesRegex(ValueError, "1 or more"):
            generate(self.net, [[1]], 0, 0, STOP_IDS)
        self.assertEqual(generate(self.net, [], 4, 0, STOP_IDS), [])

    def test_stops(self):
        first = generate(self.net, [[5, 6]], 3, 0, set())[0]
        self.assertEqual(generate(self.net, [[5, 6]], 40, 0, {first[2]})[0][-1], first[2])
        self.assertLessEqual(len(generate(self.net, [[5, 6]], 40, 0, {first[2]})[0]), 3)

    def test_taps_are_layer_outputs(self):
        seen = {}
        for i, layer in enumerate(self.net.layers):
            layer.register_forward_hook(lambda m, a, out, i=i: seen.__setitem__(i, out))
        ids = torch.randint(0, 4096, (2, 7))
        _, features = self.net(ids, taps=(0, 2))
        self.assertTrue(torch.equal(features, torch.cat([seen[0], seen[2]], -1)))

    def test_moe_is_a_loop_over_tokens(self):
        moe = self.net.layers[1].mlp
        moe.e_score_correction_bias.normal_()
        x = torch.randn(5, TINY.hidden_size)
        got = moe(x, quant_weights=False)
        for n in range(5):
            score = torch.sigmoid(moe.gate.weight @ x[n])
            chosen = sorted(range(4), key=lambda e: -(score[e] + moe.e_score_correction_bias[e]))[:2]
            total = sum(score[e] for e in chosen)
            want = moe.shared_experts(x[n])
            for e in chosen:
                h = torch.nn.functional.silu(moe.w_gate[e] @ x[n]) * (moe.w_up[e] @ x[n])
                want = want + moe.w_down[e] @ h * (score[e] / total * TINY.routed_scaling_factor)
            self.assertTrue(torch.allclose(got[n], want, atol=1e-5))

    def test_transformers_agrees(self):
        """DeepSeek-V3 of transformers, with this model's weights, gives the same logits."""
        from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

        raw = config_json(TINY)
        rope = raw.pop("rope_scaling")
        rope = {"rope_type": "yarn", "rope_theta": raw["rope_theta"], **{k: v for k, v in rope.items() if k != "type"}}
        for k in ("quantization_config", "model_type", "architectures", "torch_dtype"):
            raw.pop(k)
        oracle = DeepseekV3ForCausalLM(DeepseekV3Config(**raw, rope_scaling=rope, rope_interleave=True)).eval().float()
        theirs = {}
        for name, p in {**dict(self.net.named_parameters()), **dict(self.net.named_buffers())}.items():
            if name in ("inv_freq",) or name.endswith(".load") or name.endswith(("w_gate", "w_up", "w_down")):
                continue
            name = name.replace("mlp.e_score", "mlp.gate.e_score")
            theirs[name if name.startswith("lm_head") else "model." + name] = p
        for i, moe in ((1, self.net.layers[1].mlp), (2, self.net.layers[2].mlp)):
            theirs[f"model.layers.{i}.mlp.experts.gate_up_proj"] = torch.cat([moe.w_gate, moe.w_up], 1)
            theirs[f"model.layers.{i}.mlp.experts.down_proj"] = moe.w_down
        missing, unexpected = oracle.load_state_dict(theirs, strict=False)
        self.assertEqual((missing, unexpected), ([], []))
        ids = torch.randint(0, 4096, (2, 40))
        with torch.no_grad():
            want, got = oracle(ids).logits, self.net.logits(self.net(ids))
        self.assertLess((want - got).abs().max().item(), 1e-4 * want.abs().max().item())


class Text(unittest.TestCase):
    def test_round_trip_and_single_digits(self):
        enc = load_encoder(POCKET / "target" / "tiktoken.model")
        rng = random.Random(6)
        for _ in range(100):
            text = document(rng, [])
            self.assertEqual(enc.decode(enc.encode(text, allowed_special="all")), text)
        self.assertEqual(len(enc.encode("1234567890")), 10)
        self.assertEqual(enc.decode(enc.encode("Ünïcödé 漢字 🙂")), "Ünïcödé 漢字 🙂")

    def test_chat_form_is_the_template(self):
        from jinja2 import Environment

        env = Environment()
        env.policies["json.dumps_kwargs"] = {"sort_keys": False}
        env.filters["tojson"] = lambda v, separators=None: json.dumps(v, separators=separators)
        template = env.from_string(CHAT_TEMPLATE.read_text())
        rng = random.Random(7)
        kinds = set()
        for _ in range(300):
            c = wp.generate_chat(rng)
            kinds.add(c["kind"])
            got = chat_text(c["messages"], c.get("tools"))
            self.assertEqual(got, template.render(messages=c["messages"], tools=c.get("tools")))
            messages = [m for m in c["messages"][:-1]]
            want = template.render(messages=messages, tools=c.get("tools"), add_generation_prompt=True)
            self.assertEqual(prompt_text(c["messages"], c.get("tools")), want)
        self.assertIn("tool_result", kinds)

    def test_bad_files(self):
        with tempfile.TemporaryDirectory() as tmp:
            file = Path(tmp) / "v"
            file.write_bytes(b"YQ== 0\nno\n")
            with self.assertRaisesRegex(ValueError, "line 2"):
                load_encoder(file)
            file.write_bytes(b"YQ== 0\n")
            with self.assertRaisesRegex(ValueError, "holds 1 tokens"):
                load_encoder(file)

    def test_tokens_depend_on_the_seed_only(self):
        vocab = POCKET / "target" / "tiktoken.model"
        a, b, c = (build_tokens(s, 2000, vocab, None) for s in (1, 1, 2))
        self.assertTrue((a == b).all())
        self.assertFalse(len(a) == len(c) and (a == c).all())
        self.assertLess(int(a.max()), 4096)


class DraftData(unittest.TestCase):
    def test_blocks_against_loops(self):
        torch.manual_seed(8)
        c = TINY_DRAFT
        S = 30
        ids = torch.randint(0, 4000, (2, S))
        labels = torch.tensor([[0] * 6 + [1] * 8 + [0] * 5 + [2] * 7 + [0] * 4, [0] * 10 + [3] * 20])
        anchors = torch.tensor([[5, 9, 12, 13, 18, 22, 29], [9, 10, 26, 27, 28, 29, 0]])
        b = cut_blocks(ids, labels, anchors, c)
        for r in range(2):
            for k, a in enumerate(anchors[r].tolist()):
                response = labels[r, a].item() or (labels[r, a + 1].item() if a + 1 < S else 0)
                for j in range(c.block_size):
                    q = k * c.block_size + j
                    self.assertEqual(b.pos[r, q].item(), a + j)
                    self.assertEqual(b.noise[r, q].item(), ids[r, a].item() if j == 0 else c.mask_token_id)
                    belongs = a + j < S and response > 0 and labels[r, a + j].item() == response
                    self.assertEqual(bool(b.valid[r, k, j]), belongs, (r, a, j))
                    if belongs:
                        self.assertEqual(b.tokens[r, k, j].item(), ids[r, a + j].item())
                    seen = b.mask[r, 0, q].nonzero().flatten().tolist()
                    block = [S + k * c.block_size + i for i in range(c.block_size)]
                    self.assertEqual(seen, [*range(a), *block])

    def test_anchors_stand_at_responses(self):
        labels = torch.tensor([[0] * 12 + [1] * 4 + [2] * 3 + [0] * 3])
        good = [i for i, w in enumerate(anchor_weights(labels)[0].tolist()) if w > 0.5]
        self.assertEqual(good, [11, 12, 13, 14, 16, 17])
        early = anchor_weights(torch.ones(1, 20, dtype=torch.long))[0]
        self.assertEqual([i for i in range(20) if early[i] > 0.5], [*range(FIRST_ANCHOR, 19)])

    def test_packing(self):
        docs = [([1, 2], [3, 4]), ([5], [6]), ([7] * 5, [8] * 9), ([9] * 12, [1])]
        rows = pack(docs, 8, one_per_row=False)
        self.assertEqual(rows.ids.tolist(), [[1, 2, 3, 4, 5, 6, 0, 0], [7] * 5 + [8] * 3])
        self.assertEqual(rows.labels.tolist(), [[0, 0, 1, 1, 0, 2, 0, 0], [0] * 5 + [3] * 3])
        single = pack(docs, 8, one_per_row=True)
        self.assertEqual(single.ids.tolist()[:2], [[1, 2, 3, 4, 0, 0, 0, 0], [5, 6] + [0] * 6])
        with self.assertRaisesRegex(ValueError, "none of 1 documents"):
            pack([([1] * 9, [2])], 8, one_per_row=True)
        with self.assertRaisesRegex(ValueError, "cannot give"):
            rows.split(2)
        a, b = rows.split(1)
        self.assertEqual((len(a.ids), len(b.ids)), (1, 1))
        with tempfile.TemporaryDirectory() as tmp:
            rows.save(Path(tmp) / "c.pt")
            self.assertTrue(torch.equal(Rows.load(Path(tmp) / "c.pt").labels, rows.labels))

    def test_replay(self):
        marks = [0] * 10 + [1] * 7 + [0] * 2 + [2] * 3
        # response 1 is at 10..16: from 10 two right guesses -> 13, none -> 14, five but only two left -> end
        self.assertEqual(replay(marks, {10: 2, 13: 0, 14: 5, 19: 1, 21: 9}), [3, 1, 3, 2])
        self.assertEqual(replay(marks, {}), [1] * 6 + [1] * 2)
        self.assertEqual(replay([1] * 20, {}), [])  # began before the first anchor: not a whole response
        self.assertEqual(replay([0] * 12, {}), [])

    def test_config_refusals(self):
        for message, change in {
            "ascending": dict(target_layer_ids=[2, 1]),
            "must lie in 0..4": dict(target_layer_ids=[1, 5]),
            "kv heads": dict(num_key_value_heads=3),
            "2 or more": dict(block_size=1),
            "not in the vocabulary": dict(mask_token_id=4096),
            "even": dict(head_dim=63),
        }.items():
            with self.assertRaisesRegex(ValueError, message):
                DraftConfig(**change)
        self.assertEqual(default_layer_ids(61, 6), [1, 12, 24, 35, 47, 58])  # as nvidia/Kimi-K2.6-DFlash has them
        self.assertEqual(default_layer_ids(6, 1), [3])
        with self.assertRaisesRegex(ValueError, "too shallow"):
            default_layer_ids(4, 3)


class DraftModel(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(9)
        self.net = Target(TINY).eval()
        self.draft = Draft(TINY_DRAFT).eval().requires_grad_(False)
        self.source = PocketTarget(self.net, load_encoder(POCKET / "target" / "tiktoken.model"), "tiny")
        self.ids = torch.randint(0, 3000, (1, 40))
        self.labels = torch.tensor([[0] * 10 + [1] * 30])

    def guesses(self, features, anchors):
        b = cut_blocks(self.ids, self.labels, torch.tensor([anchors]), TINY_DRAFT)
        ctx = torch.arange(self.ids.shape[1])[None]
        return self.draft(features, self.source.embed(b.noise), ctx, b.pos, b.mask).view(len(anchors), 4, -1)

    def test_blocks_do_not_see_each_other_or_the_future(self):
        f = self.source.features(self.ids, [0, 1])
        together = self.guesses(f, [9, 15, 30])
        for k, a in enumerate([9, 15, 30]):
            self.assertTrue(torch.allclose(together[k], self.guesses(f, [a])[0], atol=1e-5))
            changed = f.clone()
            changed[:, a:] = 99.0
            self.assertTrue(torch.allclose(together[k], self.guesses(changed, [a])[0], atol=1e-5))
            changed = f.clone()
            changed[:, a - 1] += 1.0
            self.assertFalse(torch.allclose(together[k], self.guesses(changed, [a])[0], atol=1e-3))

    def test_accept_length_is_that_of_decoding(self):
        """evaluate_draft() against DFlash decoding, token by token, with the target's own greedy answers."""
        prompts = [[11, 12, 13, 14, 15, 16, 17, 18, 19]] + [[300 + i] * 12 for i in range(3)]
        answers = generate(self.net, prompts, 20, 0, set())
        rows = pack(list(zip(prompts, answers)), 64, one_per_row=True)
        draft = train_draft(TINY_DRAFT, self.source, rows, Budget(steps=70), DraftOptions(4, 16, compile=False))
        measured = evaluate_draft(draft, self.source, rows)
        self.assertGreater(measured.mean, 1.3)  # it has learnt these very answers in part
        gains = []
        for prompt, answer in zip(prompts, answers):
            known, end = len(prompt) + 1, len(prompt) + len(answer)
            ids = torch.tensor([prompt + answer])
            while known < end:  # ids[known - 1] is the last known token
                f = self.source.features(ids[:, : known - 1], [0, 1])
                noise = torch.tensor([[ids[0, known - 1].item()] + [TINY_DRAFT.mask_token_id] * 3])
                pos = torch.arange(known - 1, known + 3)[None]
                mask = torch.ones(1, 1, 4, known + 3, dtype=torch.bool)
                with torch.no_grad():
                    h = draft(f, self.source.embed(noise), torch.arange(known - 1)[None], pos, mask)
                guess = (h[0, 1:] @ self.source.head.T).argmax(-1).tolist()
                right = 0
                while right < 3 and known + right < end and guess[right] == ids[0, known + right].item():
                    right += 1
                gains.append(right + 1)
                known += right + 1
        self.assertEqual(measured.steps, len(gains))
        self.assertAlmostEqual(measured.mean, sum(gains) / len(gains), places=6)

    def test_dflash_package_agrees(self):
        """z-lab's DFlashDraftModel with the committed draft gives this module's hidden states."""
        try:
            from dflash.model import DFlashDraftModel
        except ImportError:
            self.skipTest("the dflash package is not installed")
        theirs = DFlashDraftModel.from_pretrained(POCKET / "draft", dtype=torch.float32).eval()
        ours = load_draft(POCKET / "draft")
        f, noise = torch.randn(1, 20, 768), torch.randn(1, 8, 256)
        pos = torch.arange(28)[None]
        with torch.no_grad():
            want = theirs(position_ids=pos, noise_embedding=noise, target_hidden=f)
            got = ours(f, noise, pos[:, :20], pos[:, 20:], torch.ones(1, 1, 8, 28, dtype=torch.bool))
        self.assertLess((want - got).abs().max().item(), 1e-4 * want.abs().max().item())


class OwnTarget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        smoke.tiny_hf_target(Path(cls.tmp.name))
        cls.target = HfTarget.load(cls.tmp.name)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def test_features_are_layer_outputs(self):
        seen = {}

        def keep(i):
            return lambda m, a, out: seen.__setitem__(i, out[0] if isinstance(out, tuple) else out)

        hooks = [l.register_forward_hook(keep(i)) for i, l in enumerate(self.target.model.model.layers)]
        ids = torch.randint(0, 256, (2, 9))
        f = self.target.features(ids, [0, 2])
        for h in hooks:
            h.remove()
        self.assertTrue(torch.equal(f, torch.cat([seen[0], seen[2]], -1)))

    def test_answers_are_greedy_and_padding_does_not_matter(self):
        prompts = [self.target.encode(t) for t in ("How many pens?", "Hi", "A long question about many things.\n")]
        together = self.target.answer(prompts, 10, 0)
        for p, o in zip(prompts, together):
            ids = list(p)
            for tok in o:
                with torch.no_grad():
                    self.assertEqual(self.target.model(torch.tensor([ids])).logits[0, -1].argmax().item(), tok)
                ids.append(tok)

    def test_facts(self):
        t = self.target
        self.assertEqual((t.hidden_size, t.num_layers, t.vocab_size, t.unused_id), (64, 4, 264, 260))
        self.assertEqual(t.stop_ids, {t.tokenizer.eos_token_id})
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        self.assertEqual(t.tokenizer.decode(t.encode_chat(messages)), "<|user|>Hi<|end|><|assistant|>")


class Training(unittest.TestCase):
    def test_chunked_loss(self):
        torch.manual_seed(10)
        h, head, labels, w = torch.randn(50, 8), torch.randn(20, 8), torch.randint(0, 20, (50,)), torch.rand(50)
        each = torch.nn.functional.cross_entropy(h @ head.T, labels, reduction="none")
        self.assertAlmostEqual(chunked_cross_entropy(h, head, labels, chunk=7).item(), each.sum().item(), places=3)
        got = chunked_cross_entropy(h, head, labels, w, chunk=7)
        self.assertAlmostEqual(got.item(), (each * w).sum().item(), places=3)

    def test_newton_schulz_makes_singular_values_one(self):
        torch.manual_seed(11)
        for shape in ((32, 64), (64, 32), (3, 16, 48)):
            s = torch.linalg.svdvals(newton_schulz(torch.randn(shape)).float())
            self.assertTrue(bool(((s > 0.5) & (s < 1.4)).all()), (shape, s.min(), s.max()))

    def test_ropes_are_one_rotation(self):
        torch.manual_seed(12)
        angle = torch.rand(5, 4)
        x = torch.randn(5, 8)
        halves = torch.cat([x[:, 0::2], x[:, 1::2]], -1)
        a, b = rope_interleaved(x, angle.cos(), angle.sin()), rope_half(halves, angle.cos(), angle.sin())
        self.assertTrue(torch.equal(a, b))
        turned = torch.complex(x[:, 0::2], x[:, 1::2]) * torch.polar(torch.ones_like(angle), angle)
        self.assertTrue(torch.allclose(a, torch.cat([turned.real, turned.imag], -1), atol=1e-6))

    def test_budgets(self):
        b = Budget(steps=4)
        rates = []
        while b.fraction() < 1:
            rates.append(warm_then_decay(b, warm_steps=2, decay_from=0.5, lowest=0.1))
            b.step += 1
        self.assertEqual(rates, [0.5, 1.0, 1.0, 0.5])
        for wrong in (dict(), dict(minutes=1, steps=1), dict(steps=0), dict(minutes=-1)):
            with self.assertRaises(ValueError):
                Budget(**wrong)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(verbosity=1)
