#include "text/tiktoken.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/token_matcher.h"
#include "text/tokenizer_config.h"
#include "text/unicode.h"

namespace strobe {
namespace {

constexpr size_t kMaxTokenBytes = size_t{64} << 10;
constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kShortestLine = std::string_view("IQ== 0\n").size();

// What a message shows of a line.
std::string shown(std::string_view text) {
  return repaired_utf8(text.substr(0, 60)) + (text.size() > 60 ? "..." : "");
}

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// RFC 4648 with its padding; false for anything else.
bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const size_t digits = text.size() - padding;
  uint32_t bits = 0;
  for (size_t i = 0; i < digits; ++i) {
    const int digit = base64_digit(text[i]);
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 0) out += static_cast<char>(bits >> (6 - 2 * (i % 4)));
  }
  const uint32_t unused = padding == 0 ? 0 : padding == 1 ? 3 : 15;  // bits of the last digit that belong to no byte
  return (bits & unused) == 0;
}

// One line of the file, without its end.
struct ModelLine {
  std::string token;
  size_t rank = 0;
};

Result<ModelLine> parse_line(std::string_view line, std::string_view name, size_t number) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) {
    return error("{}:{}: '{}' is not \"BASE64 RANK\"", name, number, shown(line));
  }
  ModelLine parsed;
  if (!decode_base64(line.substr(0, space), parsed.token)) {
    return error("{}:{}: '{}' is not base64 of a token", name, number, shown(line.substr(0, space)));
  }
  if (parsed.token.size() > kMaxTokenBytes) {
    return error("{}:{}: a token of {} bytes, at most {} are accepted", name, number, parsed.token.size(),
                 kMaxTokenBytes);
  }
  const std::string_view rank = line.substr(space + 1);
  const auto [stop, code] = std::from_chars(rank.data(), rank.data() + rank.size(), parsed.rank);
  if (code != std::errc() || stop != rank.data() + rank.size() || parsed.rank >= kMaxTokens) {
    return error("{}:{}: the rank '{}' is not a whole number from 0 to {}", name, number, shown(rank), kMaxTokens - 1);
  }
  return parsed;
}

Result<void> check_ranks(const std::vector<std::string>& tokens, const std::vector<size_t>& line_of_rank,
                         std::string_view name) {
  if (tokens.empty()) return error("{}: holds no tokens", name);
  std::unordered_map<std::string_view, size_t> line_of_token;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    if (line_of_rank[rank] == 0) {
      return error("{}: no line has the rank {}, but there are ranks up to {}", name, rank, tokens.size() - 1);
    }
    const auto [there, is_new] = line_of_token.emplace(tokens[rank], line_of_rank[rank]);
    if (!is_new) {
      const auto [first, second] = std::minmax(there->second, line_of_rank[rank]);
      return error("{}:{}: the token of line {} again", name, second, first);
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (!line_of_token.contains(std::string_view(&c, 1))) {
      return error("{}: the single byte {:#04x} is not a token, so some texts could not be encoded", name, byte);
    }
  }
  return {};
}

class TiktokenTokenizer final : public Tokenizer {
 public:
  struct ControlToken {
    std::string text;
    bool special = false;
  };
  TiktokenTokenizer(Bpe bpe, std::vector<ControlToken> controls, SpecialIds ids)
      : bpe_(std::move(bpe)), controls_(std::move(controls)), ids_(ids) {
    for (size_t i = 0; i < controls_.size(); ++i) matcher_.add(controls_[i].text, base() + static_cast<int32_t>(i));
  }

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, SpecialTokens special) const override {
    std::string repaired;
    if (!is_valid_utf8(text)) {
      repaired = repaired_utf8(text);
      text = repaired;
    }
    std::vector<int32_t> ids;
    CharRun run;
    while (!text.empty()) {
      run.assign(text, kKimiBlockChars);
      encode_block(run, special, ids);
      text.remove_prefix(run.offset(run.size()));
    }
    return ids;
  }

  [[nodiscard]] int32_t vocab_size() const override { return base() + static_cast<int32_t>(controls_.size()); }

  [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) return {};
    return id < base() ? bpe_.vocabulary().bytes(id) : std::string_view(control(id).text);
  }

  [[nodiscard]] std::optional<int32_t> token_id(std::string_view bytes) const override {
    const auto match = matcher_.find(bytes, 0);
    if (match && match->begin == 0 && match->end == bytes.size()) return match->id;
    return bpe_.vocabulary().find(bytes);
  }

  [[nodiscard]] bool is_special(int32_t id) const override {
    return id >= base() && id < vocab_size() && control(id).special;
  }

  [[nodiscard]] const SpecialIds& special_ids() const override { return ids_; }

 private:
  [[nodiscard]] int32_t base() const { return bpe_.vocabulary().size(); }
  [[nodiscard]] const ControlToken& control(int32_t id) const { return controls_[static_cast<size_t>(id - base())]; }

  // Cuts a block where too many characters of one kind stand in a row.
  void encode_block(const CharRun& run, SpecialTokens special, std::vector<int32_t>& ids) const {
    size_t begin = 0;
    size_t same = 0;
    bool was_space = run.has(0, CharRun::kPythonSpace);
    for (size_t i = 0; i < run.size(); ++i) {
      const bool is_space = run.has(i, CharRun::kPythonSpace);
      if (is_space != was_space) {
        same = 1;
        was_space = is_space;
      } else if (++same > kKimiSameKindChars) {
        encode_part(run, begin, i, special, ids);
        begin = i;
        same = 1;
      }
    }
    encode_part(run, begin, run.size(), special, ids);
  }

  void encode_part(const CharRun& run, size_t begin, size_t end, SpecialTokens special,
                   std::vector<int32_t>& ids) const {
    if (special == SpecialTokens::kRecognise) {
      const std::string_view text = run.text(begin, end);
      const size_t origin = run.offset(begin);
      for (size_t at = 0; const auto match = matcher_.find(text, at);) {
        encode_ordinary(run, begin, run.char_at(origin + match->begin), ids);
        ids.push_back(match->id);
        at = match->end;
        begin = run.char_at(origin + at);
      }
    }
    encode_ordinary(run, begin, end, ids);
  }

  void encode_ordinary(const CharRun& run, size_t begin, size_t end, std::vector<int32_t>& ids) const {
    while (begin < end) {
      const size_t stop = piece_end(SplitPattern::kKimi, run, begin, end);
      bpe_.encode_piece(run.text(begin, stop), ids);
      begin = stop;
    }
  }

  Bpe bpe_;
  std::vector<ControlToken> controls_;
  TokenMatcher matcher_;
  SpecialIds ids_;
};

using ControlTokens = std::vector<TiktokenTokenizer::ControlToken>;

Result<ControlTokens> control_tokens(const TokenizerConfig& config, int32_t base, std::string_view name) {
  ControlTokens controls(static_cast<size_t>(kKimiControlTokens));
  for (const auto& [id, token] : config.added_tokens) {
    if (id < base || id >= base + kKimiControlTokens) {
      return error(
          "{}: added_tokens_decoder names the id {} ('{}'), but the control tokens of this vocabulary are {} to {}",
          name, id, shown(token.content), base, base + kKimiControlTokens - 1);
    }
    controls[static_cast<size_t>(id - base)] = {token.content, token.special};
  }
  std::unordered_map<std::string_view, int32_t> seen;
  for (int32_t i = 0; i < kKimiControlTokens; ++i) {
    auto& control = controls[static_cast<size_t>(i)];
    if (control.text.empty()) control.text = fmt::format("<|reserved_token_{}|>", base + i);
    const auto [there, is_new] = seen.emplace(control.text, base + i);
    if (!is_new) {
      return error("{}: the control tokens {} and {} have the same text '{}'", name, there->second, base + i,
                   shown(control.text));
    }
  }
  return controls;
}

// Gives the id of a named token and marks it special.
Result<std::optional<int32_t>> named_id(const std::optional<std::string>& text, std::string_view field,
                                        ControlTokens& controls, int32_t base, std::string_view name) {
  if (!text) return std::optional<int32_t>();
  const auto found = std::find_if(controls.begin(), controls.end(), [&](const auto& c) { return c.text == *text; });
  if (found == controls.end()) return error("{}: {} is '{}', which is none of the control tokens", name, field, *text);
  found->special = true;
  return std::optional(base + static_cast<int32_t>(found - controls.begin()));
}

}  // namespace

Result<std::vector<std::string>> parse_tiktoken_model(std::string_view text, std::string_view name) {
  std::vector<std::string> tokens;
  std::vector<size_t> line_of_rank;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    STROBE_ASSIGN(auto parsed, parse_line(line, name, number));
    // No room is made for ranks that the rest of the file cannot fill: a line takes kShortestLine bytes or more.
    if (parsed.rank > tokens.size() + text.size() / kShortestLine + 1) {
      return error("{}:{}: the rank {} is above the number of lines", name, number, parsed.rank);
    }
    if (parsed.rank >= tokens.size()) {
      tokens.resize(parsed.rank + 1);
      line_of_rank.resize(parsed.rank + 1, 0);
    }
    if (line_of_rank[parsed.rank] != 0) {
      return error("{}:{}: the rank {} of line {} again", name, number, parsed.rank, line_of_rank[parsed.rank]);
    }
    tokens[parsed.rank] = std::move(parsed.token);
    line_of_rank[parsed.rank] = number;
  }
  STROBE_TRY(check_ranks(tokens, line_of_rank, name));
  return tokens;
}

Result<std::unique_ptr<Tokenizer>> make_tiktoken_tokenizer(const TiktokenFiles& files) {
  STROBE_ASSIGN(const TokenizerConfig config, parse_tokenizer_config(files.config, files.config_name));
  if (!config.tokenizer_class.empty() && config.tokenizer_class != "TikTokenTokenizer") {
    return error("{}: tokenizer_class is '{}'; with a tiktoken.model only TikTokenTokenizer is known",
                 files.config_name, shown(config.tokenizer_class));
  }
  STROBE_ASSIGN(const auto tokens, parse_tiktoken_model(files.model, files.model_name));
  const auto base = static_cast<int32_t>(tokens.size());
  STROBE_ASSIGN(ControlTokens controls, control_tokens(config, base, files.config_name));
  SpecialIds ids;
  STROBE_ASSIGN(ids.bos, named_id(config.bos, "bos_token", controls, base, files.config_name));
  STROBE_ASSIGN(ids.eos, named_id(config.eos, "eos_token", controls, base, files.config_name));
  STROBE_ASSIGN(ids.pad, named_id(config.pad, "pad_token", controls, base, files.config_name));
  STROBE_ASSIGN(ids.unk, named_id(config.unk, "unk_token", controls, base, files.config_name));
  for (const std::string& text : config.additional_special_tokens) {
    STROBE_TRY(named_id(text, "additional_special_tokens", controls, base, files.config_name));
  }
  return std::unique_ptr<Tokenizer>(
      std::make_unique<TiktokenTokenizer>(Bpe::from_ranks(Vocabulary(tokens)), std::move(controls), ids));
}

}  // namespace strobe
