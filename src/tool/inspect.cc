// strobe inspect: what would run, why, and how much memory it takes, without loading weights.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "tool/commands.h"
#include "tool/plan.h"

namespace strobe::tool {
namespace {

struct InspectOptions {
  EngineOptions engine;
  double memory_gib = 0;
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("--memory-gib", memory_gib, "plan for a device with this much memory; 0: this machine");
    v("--json", json, "print one JSON object");
    engine.visit(v);
  }
};

std::string rope_text(const RopeConfig& rope, int64_t positions) {
  std::string text = fmt::format("{}, theta {:.0f}", to_string(rope.kind), rope.theta);
  if (rope.kind != RopeKind::kDefault)
    text += fmt::format(", {} x {} positions", rope.factor, rope.original_max_positions);
  return text + fmt::format("; good for {}", positions);
}

void add_tensor_facts(const LoadSummary& tensors, std::vector<std::pair<std::string, std::string>>& facts) {
  if (tensors.taken_tensors == 0) return;  // a fault says why
  facts.emplace_back("scales", fmt::format("of {} NVFP4 matrices; KV cache: {}", tensors.quantised_modules,
                                           tensors.kv_scaled > 0 ? fmt::format("of {} layers", tensors.kv_scaled)
                                                                 : std::string("none in the checkpoint, so 1")));
  facts.emplace_back("unused tensors", fmt::format("{}, of parts that are not served", tensors.skipped_tensors));
}

// What runs, but may not be as it was meant; a fault is listed elsewhere.
std::vector<std::string> warnings_of(const Plan& plan) {
  std::vector<std::string> warnings = plan.warnings;
  const LoadSummary& tensors = plan.target_tensors;
  warnings.insert(warnings.end(), tensors.notes.begin(), tensors.notes.end());
  if (const int64_t more = tensors.note_count - std::ssize(tensors.notes); more > 0) {
    warnings.push_back(fmt::format("{} further modules are not as the config says", more));
  }
  return warnings;
}

// The facts that must agree between target, draft and files: what people get wrong.
std::vector<std::pair<std::string, std::string>> preflight(const Plan& plan) {
  const ModelConfig& target = plan.config;
  std::vector<std::pair<std::string, std::string>> facts{
      {"target", fmt::format("{}, {} layers, hidden {}, vocabulary {}", target.model_type, target.layers,
                             target.hidden_size, target.vocab_size)},
      {"attention", target.mla
                        ? fmt::format("MLA, {} heads, cache row of {} numbers", target.heads, target.mla->cache_width())
                        : fmt::format("GQA, {} heads, {} for keys", target.heads, target.gqa->kv_heads)},
      {"positions", fmt::format("{} at most, {} served", target.max_positions, plan.context_tokens)},
      {"rope", rope_text(target.rope, target.max_positions)},
      {"tokenizer", plan.tokenizer ? fmt::format("{} tokens", plan.tokenizer->vocab_size()) : "not read"}};
  if (target.moe) {
    facts.emplace_back("experts", fmt::format("{}, {} a token, {} shared, from layer {} on", target.moe->experts,
                                              target.moe->experts_per_token, target.moe->shared_experts,
                                              target.moe->first_dense_layers));
  }
  add_tensor_facts(plan.target_tensors, facts);
  if (plan.draft_config) {
    const DraftConfig& draft = *plan.draft_config;
    facts.emplace_back("draft", fmt::format("{} layers, block of {}, mask token {}", plan.draft_recipe.layer_count(),
                                            plan.options.speculative_num_draft_tokens, plan.mask_token));
    facts.emplace_back("draft rope", rope_text(draft.rope, draft.max_positions));
    facts.emplace_back("features", fmt::format("outputs of target layers {}", fmt::join(draft.target_layer_ids, ", ")));
  }
  return facts;
}

void print_text(const Plan& plan) {
  const auto section = [](const char* name) { fmt::print("\n{}\n", name); };
  section("Model");
  for (const auto& [name, value] : preflight(plan)) fmt::print("  {:<24} {}\n", name, value);
  section("Decisions");
  for (const Decision& d : plan.decisions) fmt::print("  {:<24} {:<28} {}\n", d.what, d.value, d.reason);
  section("Memory");
  if (plan.memory.tokens > 0) {
    for (const std::string& line : plan.memory.table()) fmt::print("  {}\n", line);
  } else {
    for (const auto& item : plan.memory.items) {
      fmt::print("  {:<20} {:>10}  {}\n", item.what, engine::bytes_text(item.bytes), item.detail);
    }
  }
  if (const auto warnings = warnings_of(plan); !warnings.empty()) {
    section("Warnings");
    for (const std::string& warning : warnings) fmt::print("  {}\n", warning);
  }
  if (plan.faults.empty()) {
    fmt::print("\nNothing stands in the way.\n");
    return;
  }
  section("Faults");
  for (const std::string& fault : plan.faults) fmt::print("  {}\n", fault);
}

void print_json(const Plan& plan) {
  nlohmann::ordered_json out;
  for (const auto& [name, value] : preflight(plan)) out["model"][name] = value;
  out["decisions"] = nlohmann::ordered_json::array();
  for (const Decision& d : plan.decisions) {
    out["decisions"].push_back({{"what", d.what}, {"value", d.value}, {"reason", d.reason}});
  }
  out["memory"]["items"] = nlohmann::ordered_json::array();
  for (const auto& item : plan.memory.items) {
    out["memory"]["items"].push_back({{"what", item.what}, {"bytes", item.bytes}, {"detail", item.detail}});
  }
  out["memory"]["tokens"] = plan.memory.tokens;
  out["memory"]["pages"] = plan.memory.pages;
  out["memory"]["bytes_per_token"] = plan.memory.bytes_per_token;
  out["memory"]["total_bytes"] = plan.memory.total_bytes();
  out["memory"]["limit_bytes"] = plan.memory.limit_bytes;
  out["memory"]["reason"] = plan.memory.reason;
  out["warnings"] = warnings_of(plan);
  out["faults"] = plan.faults;
  fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<int> inspect(InspectOptions o) {
  if (!(o.memory_gib >= 0 && o.memory_gib < 1e6)) {
    return error("--memory-gib {}: accepted: 0 (this machine) or more", o.memory_gib);
  }
  default_to_pocket(o.engine);
  if (o.engine.log_level == "info") o.engine.log_level = "error";  // what is logged elsewhere is printed here
  constexpr double kGib = 1024.0 * 1024 * 1024;
  STROBE_ASSIGN(const Plan plan,
                make_plan(o.engine, {.inspection = true, .memory_bytes = static_cast<int64_t>(o.memory_gib * kGib)}));
  o.json ? print_json(plan) : print_text(plan);
  return plan.faults.empty() ? 0 : 1;
}

}  // namespace

Subcommand inspect_command() {
  auto options = std::make_shared<InspectOptions>();
  return {.name = "inspect",
          .help = "what would run, why, and the memory it takes; loads nothing",
          .add_options = [options](OptionAdder& add) { options->visit(add); },
          .run = [options] { return exit_code(inspect(*options)); }};
}

}  // namespace strobe::tool
