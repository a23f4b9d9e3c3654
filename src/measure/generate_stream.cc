#include "measure/generate_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace strobe::measure {
namespace {

using nlohmann::json;

template <class T>
void take(const json& object, const char* name, T& field) {
  if (object.contains(name) && !object[name].is_null()) field = object[name].get<T>();
}

void take_tokens(RequestRecord& record, int64_t tokens, double now_s) {
  const int64_t news = tokens - record.completion_tokens;
  if (news <= 0) return;
  if (record.completion_tokens == 0) {
    record.first_s = now_s;
    record.first_event_tokens = news;
  } else {
    record.gaps_s.insert(record.gaps_s.end(), static_cast<size_t>(news),
                         (now_s - record.last_s) / static_cast<double>(news));
  }
  record.completion_tokens = tokens;
  record.last_s = now_s;
}

}  // namespace

void GenerateStream::event(std::string_view data, double now_s) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  try {
    const json event = json::parse(data);
    if (event.contains("error")) {
      problem_ = fmt::format("the server sent an error: {}", data.substr(0, 300));
      return;
    }
    const auto index = event.value("index", size_t{0});
    if (index >= records_.size()) {
      problem_ = fmt::format("an event for request {} of {}", index, records_.size());
      return;
    }
    RequestRecord& record = records_[index];
    const json& meta = event.at("meta_info");
    take_tokens(record, meta.at("completion_tokens").get<int64_t>(), now_s);
    take(meta, "prompt_tokens", record.prompt_tokens);
    take(event, "output_ids", record.output_ids);
    if (!meta.contains("finish_reason") || meta["finish_reason"].is_null()) return;
    record.finish = meta["finish_reason"].value("type", "?");
    take(meta, "spec_verify_ct", record.verify_steps);
    for (const char* name : {"spec_accepted_drafts", "spec_num_correct_drafts"})
      take(meta, name, record.accepted_tokens);
    for (const char* name : {"spec_accept_histogram", "spec_correct_drafts_histogram"}) {
      take(meta, name, record.accept_histogram);
    }
  } catch (const json::exception& e) {
    problem_ = fmt::format("an event that cannot be read ({}): {}", e.what(), data.substr(0, 300));
  }
}

std::string GenerateStream::problem() const {
  if (!problem_.empty()) return problem_;
  for (size_t i = 0; i < records_.size(); ++i) {
    const RequestRecord& record = records_[i];
    if (record.finish.empty()) return fmt::format("request {} of the batch has no end", i);
    if (record.finish != "length" && record.finish != "stop") {
      return fmt::format("request {} of the batch ended with '{}'", i, record.finish);
    }
  }
  return done_ ? "" : "the stream ended without [DONE]";
}

}  // namespace strobe::measure
