// What the server tells about the model and the program: filled once by main.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace strobe::serve {

// From generation_config.json. The OpenAI endpoints use them for fields that a request leaves out; /generate does not.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

struct ServerInfo {
  std::string model_name;  // what /v1/models lists; a request's `model` must be this one or absent
  std::string model_path;
  std::string tokenizer_path;
  std::string model_type;                  // of config.json
  std::vector<std::string> architectures;  // of config.json
  std::string version;
  int32_t vocab_tokens = 0;  // ids a request may name are below this
  int64_t created_unix_s = 0;
  SamplingDefaults sampling_defaults;
  nlohmann::json server_args = nlohmann::json::object();   // flag -> value; /server_info flattens it
  nlohmann::json memory_usage = nlohmann::json::object();  // weight, kvcache, graph in GB, as SGLang counts them
};

}  // namespace strobe::serve
