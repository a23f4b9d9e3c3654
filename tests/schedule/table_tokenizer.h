// A tokenizer whose tokens are whatever bytes a test needs.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace strobe::schedule {

class TableTokenizer : public Tokenizer {
 public:
  explicit TableTokenizer(std::vector<std::string> tokens, std::set<int32_t> special = {})
      : tokens_(std::move(tokens)), special_(std::move(special)) {}

  [[nodiscard]] std::vector<int32_t> encode(std::string_view, SpecialTokens) const override { return {}; }
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(tokens_.size()); }
  [[nodiscard]] std::string_view token_bytes(int32_t id) const override { return tokens_.at(static_cast<size_t>(id)); }
  [[nodiscard]] std::optional<int32_t> token_id(std::string_view bytes) const override {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i] == bytes) return static_cast<int32_t>(i);
    }
    return std::nullopt;
  }
  [[nodiscard]] bool is_special(int32_t id) const override { return special_.contains(id); }
  [[nodiscard]] const SpecialIds& special_ids() const override { return ids_; }

 private:
  std::vector<std::string> tokens_;
  std::set<int32_t> special_;
  SpecialIds ids_;
};

}  // namespace strobe::schedule
