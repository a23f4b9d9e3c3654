// Whatever can be refused is refused before weights are read. Here a model has none: its folders hold configs and
// tokenizer only, so an assembly that gets as far as the weights says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "../text/scratch_folder.h"
#include "source_dir.h"
#include "tool/assembly.h"

namespace strobe::tool {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using O = EngineOptions;

class EarlyErrors : public ::testing::Test {
 protected:
  EarlyErrors() {
    for (const char* part : {"target", "draft"}) {
      fs::create_directories(folder_.path() / part);
      for (const auto& file : fs::directory_iterator(source_dir() / "models/pocket-k2" / part)) {
        if (file.path().string().find(".safetensors") == std::string::npos) {
          fs::copy(file.path(), folder_.path() / part / file.path().filename());
        }
      }
    }
  }
  [[nodiscard]] std::string target() const { return folder_.path() / "target"; }
  [[nodiscard]] std::string draft() const { return folder_.path() / "draft"; }

  std::string refusal(const std::function<void(O&)>& change, bool speculates = true) {
    O options;
    options.model_path = target();
    options.threads = 1;
    options.log_level = "error";
    if (speculates) {
      options.speculative_algorithm = "DFLASH";
      options.speculative_draft_model_path = draft();
    }
    change(options);
    const auto system = assemble(options);
    EXPECT_FALSE(system.ok());
    return system.ok() ? "" : system.message();
  }

 private:
  strobe::testing::ScratchFolder folder_;
};

TEST_F(EarlyErrors, WithoutAnyTheWeightsAreMissed) {
  EXPECT_THAT(refusal([](O&) {}), AllOf(HasSubstr(target()), HasSubstr("safetensors")));
}

TEST_F(EarlyErrors, EachWrongFlagIsNamed) {
  struct Case {
    const char* flag;
    std::function<void(O&)> change;
    const char* about;
  };
  const Case cases[] = {
      {"--page-size 0", [](O& o) { o.page_size = 0; }, "1 to 1024"},
      {"--attention-backend: ", [](O& o) { o.attention_backend = "nonsense"; }, "'nonsense' is not known"},
      {"--attention-backend: ", [](O& o) { o.attention_backend = "fa4"; }, "cannot be the prefill backend"},
      {"--attention-backend: ",
       [](O& o) {
         o.attention_backend = "trtllm_mla";
         o.page_size = 16;
       },
       "no page size 16"},
      {"--attention-backend: ",
       [](O& o) {
         o.attention_backend = "torch_native";
         o.kv_cache_dtype = "fp8_e4m3";
       },
       "cannot read an fp8_e4m3 KV cache"},
      {"--attention-backend: ",
       [](O& o) {
         o.attention_backend = "trtllm_mla";
         o.strict_backends = true;
       },
       "--strict-backends"},
      {"--prefill-attention-backend: ", [](O& o) { o.prefill_attention_backend = "nonsense"; }, "prefill attention"},
      {"--decode-attention-backend: ", [](O& o) { o.decode_attention_backend = "nonsense"; }, "decode attention"},
      {"--moe-runner-backend triton",
       [](O& o) {
         o.moe_runner_backend = "triton";
         o.strict_backends = true;
       },
       "--strict-backends"},
      {"--fp4-gemm-backend cutlass",
       [](O& o) {
         o.fp4_gemm_backend = "cutlass";
         o.strict_backends = true;
       },
       "--strict-backends"},
      {"--quantization unquant", [](O& o) { o.quantization = "unquant"; }, "NVFP4"},
      {"--context-length 1000000", [](O& o) { o.context_length = 1000000; }, "max_position_embeddings"},
      {"--speculative-draft-attention-backend: ", [](O& o) { o.speculative_draft_attention_backend = "nonsense"; },
       "draft attention backend 'nonsense' is not known"},
      {"--speculative-draft-attention-backend: ", [](O& o) { o.speculative_draft_attention_backend = "trtllm_mla"; },
       "cannot be the draft backend"},
      {"--speculative-draft-attention-backend: ",
       [](O& o) {
         o.speculative_draft_attention_backend = "fa4";
         o.strict_backends = true;
       },
       "--strict-backends"},
      {"--speculative-draft-window-size 7", [](O& o) { o.speculative_draft_window_size = 7; }, "a block of 8 tokens"},
      {"--speculative-draft-window-size 8",
       [](O& o) {
         o.speculative_num_draft_tokens = 16;
         o.speculative_draft_window_size = 8;
       },
       "a block of 16 tokens"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(refusal(c.change), AllOf(HasSubstr(c.flag), HasSubstr(c.about), Not(HasSubstr("safetensors"))));
  }
}

TEST_F(EarlyErrors, PromptsOfModelsThatCannotBeExpanded) {
  const auto expanded = [](O& o) { o.enable_expanded_mla_prefill = true; };
  EXPECT_THAT(refusal(expanded), HasSubstr("safetensors")) << "pocket-k2 can";
  const auto config = [&](const std::function<void(nlohmann::json&)>& change) {
    std::ifstream file(source_dir() / "models/pocket-k2/target/config.json");
    auto json = nlohmann::json::parse(file);
    change(json);
    std::ofstream(target() + "/config.json") << json;
  };
  config([](nlohmann::json& json) { json["kv_lora_rank"] = 64; });
  EXPECT_THAT(refusal(expanded, false),
              AllOf(HasSubstr("--enable-expanded-mla-prefill: keys of 64 + 64 numbers and values of 64 a head"),
                    HasSubstr("a latent of 64"), HasSubstr("accepted: "), Not(HasSubstr("safetensors"))));
  std::ofstream(target() + "/config.json")
      << R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
             "vocab_size": 8192, "max_position_embeddings": 512, "rms_norm_eps": 1e-6})";
  EXPECT_THAT(refusal(expanded, false),
              AllOf(HasSubstr("--enable-expanded-mla-prefill: "), HasSubstr(target()),
                    HasSubstr("has no latent attention (MLA); accepted: "), Not(HasSubstr("safetensors"))));
}

TEST_F(EarlyErrors, AGpuThatIsNotThere) {
  const auto named = [](int32_t index) {
    return [index](O& o) {
      o.device = "cuda";
      o.base_gpu_id = index;
    };
  };
  // Of a program without CUDA, of a machine without a GPU, or of one that has fewer.
  const std::string words = kernel::find_cuda_device(999).error().message;
  EXPECT_THAT(refusal(named(999)), AllOf(HasSubstr("--device cuda: "), HasSubstr(words)));
  EXPECT_THAT(refusal(named(-1)), HasSubstr("--base-gpu-id -1"));
}

TEST_F(EarlyErrors, FoldersAreNamed) {
  EXPECT_THAT(refusal([&](O& o) { o.model_path = draft() + "/no"; }), HasSubstr(draft() + "/no"));
  EXPECT_THAT(refusal([&](O& o) { o.tokenizer_path = draft(); }), HasSubstr(draft()));
  EXPECT_THAT(refusal([&](O& o) { o.speculative_draft_model_path = target() + "/no"; }), HasSubstr(target() + "/no"));
  // A target is no draft.
  EXPECT_THAT(refusal([&](O& o) { o.speculative_draft_model_path = target(); }),
              AllOf(HasSubstr("architectures"), Not(HasSubstr("safetensors"))));
}

TEST_F(EarlyErrors, WithoutSpeculationItsFlagsAreNotJudged) {
  EXPECT_THAT(refusal([](O& o) { o.speculative_draft_attention_backend = "nonsense"; }, false),
              HasSubstr("safetensors"));
}

}  // namespace
}  // namespace strobe::tool
