#include "conversation.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "source_dir.h"

namespace strobe::spec {

Ids Speaker::answer(int32_t count) const {
  STROBE_CHECK(count <= said(), "{} of {}", count, said());
  return {tokens.begin() + prompt_tokens, tokens.begin() + prompt_tokens + count};
}

engine::StepTimes step(engine::Stepper& stepper, std::span<Speaker* const> speakers, const StepOptions& options) {
  engine::StepPlan plan{.timed = options.timed};
  for (const Speaker* s : speakers) {
    const auto pending = static_cast<int32_t>(s->tokens.size()) - s->committed;
    const bool reading = s->said() == 0;
    const int32_t fed = std::min(pending, options.chunk_tokens);
    plan.sequences.push_back(
        {.tokens = std::span(s->tokens).subspan(static_cast<size_t>(s->committed), static_cast<size_t>(fed)),
         .first_position = s->committed,
         .pages = s->pages,
         .wants_token = fed == pending,
         .block_tokens = reading ? 1 : options.block_tokens,
         .sampling = &s->sampling,
         .history = s->tokens,
         .prompt_tokens = s->prompt_tokens,
         .forbidden_early = s->end_tokens,
         .forbidden_rows = std::max(0, s->min_new_tokens - s->said())});
  }
  const engine::StepResult result = stepper.run(plan);
  STROBE_CHECK(result.outputs.size() == speakers.size(), "{} outputs", result.outputs.size());
  for (size_t i = 0; i < speakers.size(); ++i) {
    Speaker& s = *speakers[i];
    const engine::StepOutput& output = result.outputs[i];
    const engine::StepSequence& asked = plan.sequences[i];
    STROBE_CHECK(output.tokens.empty() != asked.wants_token && output.drafted == asked.block_tokens - 1, "{} drafts",
                 output.drafted);
    STROBE_CHECK(!asked.wants_token || output.accepted + 1 == std::ssize(output.tokens), "{} accepted",
                 output.accepted);
    s.committed += static_cast<int32_t>(asked.tokens.size()) + output.accepted;
    if (output.drafted > 0) s.accepted.push_back(output.accepted);
    s.tokens.insert(s.tokens.end(), output.tokens.begin(), output.tokens.end());
    s.logprobs.insert(s.logprobs.end(), output.logprobs.begin(), output.logprobs.end());
  }
  return result.times;
}

void speak(engine::Stepper& stepper, std::vector<Speaker*> speakers, int32_t count, const StepOptions& options) {
  for (;;) {
    std::erase_if(speakers, [&](const Speaker* s) { return s->said() >= count; });
    if (speakers.empty()) return;
    step(stepper, speakers, options);
  }
}

Stage::Stage(Pocket& pocket, DType target_kv, DType draft_kv, int32_t page_size, const model::Recipe* recipe)
    : pocket_(pocket),
      recipe_(recipe == nullptr ? &pocket.recipe() : recipe),
      page_size_(page_size),
      target_store_(model::kv_geometry(pocket.recipe(), target_kv), Pocket::kPages * Pocket::kPageSize / page_size,
                    page_size, {}, pocket.exec().memory()),
      draft_store_(model::kv_geometry(pocket.draft().recipe(), draft_kv),
                   Pocket::kPages * Pocket::kPageSize / page_size, page_size, {}, pocket.exec().memory()) {
  for (int32_t page = 0; page < Pocket::kPages * Pocket::kPageSize / page_size; ++page) {
    target_store_.poison(page);
    draft_store_.poison(page);
  }
}

engine::TargetModel Stage::target() const {
  engine::TargetModel target = pocket_.target(target_store_);
  target.recipe = recipe_;
  return target;
}

engine::PlainStepper Stage::plain() const {
  engine::TargetModel plain_target = target();
  plain_target.capture_layers.clear();
  return {pocket_.exec(), std::move(plain_target), page_size_, 4096, pocket_.recorded()};
}

DflashStepper Stage::dflash(int32_t block_tokens, int32_t window_tokens) const {
  return {pocket_.exec(),
          target(),
          pocket_.draft(),
          draft_store_,
          {.block_tokens = block_tokens,
           .window_tokens = window_tokens,
           .page_size = page_size_,
           .max_rows = 4096,
           .recorded = pocket_.recorded()}};
}

Ids Stage::drafts(const Speaker& speaker, int32_t block_tokens) const {
  engine::RowList rows(page_size_);
  Ids block(static_cast<size_t>(block_tokens), pocket_.draft().mask_token());
  block[0] = speaker.tokens.back();
  rows.add(block, speaker.committed, speaker.pages);
  const int32_t first_visible = 0;
  ops::Exec& exec = pocket_.exec();
  ops::WorkspaceFrame frame(exec.workspace());
  const Tensor tokens = frame.tensor(DType::kI32, {block_tokens});
  const engine::RowList::Placed placed = rows.place(exec, frame, {&first_visible, 1});
  pocket_.draft().draft(exec, placed.ids, placed.batch, draft_store_, tokens);
  std::vector<std::byte> storage;
  const auto* said = ops::to_host(exec, tokens, storage).as<int32_t>();
  return {said + 1, said + block_tokens};
}

std::vector<std::byte> stored_bytes(const cache::KvStore& store, std::span<const int32_t> pages, int32_t count) {
  const cache::KvGeometry& geometry = store.geometry();
  const auto slot_bytes = static_cast<size_t>(geometry.dim * size_bytes(geometry.dtype));
  std::vector<std::byte> bytes;
  for (int64_t layer = 0; layer < geometry.layers; ++layer) {
    for (int64_t plane = 0; plane < geometry.planes; ++plane) {
      const kernel::PagedStore paged = store.plane(layer, plane);
      for (int32_t p = 0; p < count; ++p) {
        const int64_t slot =
            int64_t{pages[static_cast<size_t>(p / paged.page_size)]} * paged.page_size + p % paged.page_size;
        const auto* begin = static_cast<const std::byte*>(paged.data) + static_cast<size_t>(slot) * slot_bytes;
        bytes.resize(bytes.size() + slot_bytes);
        store.memory().download(bytes.data() + bytes.size() - slot_bytes, begin, static_cast<int64_t>(slot_bytes));
      }
    }
  }
  return bytes;
}

Pocket& lone_pocket(const model::Platform& platform) {
  static std::map<const model::Platform*, std::unique_ptr<Pocket>> loaded;
  auto& pocket = loaded[&platform];
  if (!pocket) pocket = std::make_unique<Pocket>(platform, 1);
  return *pocket;
}

const nlohmann::json& traces() {
  static const nlohmann::json loaded = [] {
    std::ifstream file(source_dir() / "tests/golden/model/traces.json");
    return nlohmann::json::parse(file);
  }();
  return loaded;
}

Ids trace_prompt(const std::string& name) {
  for (const auto& trace : traces()) {
    if (trace.at("name") == name) return trace.at("prompt_ids");
  }
  throw std::runtime_error("no trace " + name);
}

}  // namespace strobe::spec
