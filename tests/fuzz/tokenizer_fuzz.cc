// tiktoken.model and tokenizer_config.json readers, encoding and decoding, on any bytes.
//
// An input is three parts with a line "%%" between them: the model file, the config file, the text. When the files are
// refused, a small sound vocabulary takes the text, so that encoding is tried every time.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tiktoken.h"
#include "text/unicode.h"
#include "tiktoken_writer.h"

namespace {

using strobe::SpecialTokens;
using strobe::Tokenizer;

std::unique_ptr<Tokenizer> sound_tokenizer() {
  auto tokens = strobe::testing::single_bytes();
  for (const char* token : {"ab", "  ", "\n\n", "the", " the", "\xe4\xb8", "\xe4\xb8\xad", "00", "aaaa"}) {
    tokens.emplace_back(token);
  }
  const std::string model = strobe::testing::model_text(tokens);
  return strobe::make_tiktoken_tokenizer({.model = model, .config = "{}"}).value();
}

std::string_view take_part(std::string_view& rest) {
  const size_t end = rest.find("%%\n");
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 3);
  return part;
}

void check_round_trip(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special) {
  const std::vector<int32_t> ids = tokenizer.encode(text, special);
  for (const int32_t id : ids) STROBE_CHECK(id >= 0 && id < tokenizer.vocab_size(), "id {}", id);
  STROBE_CHECK(tokenizer.decode(ids, false) == strobe::repaired_utf8(text), "{} ids do not give the text back",
               ids.size());
  strobe::Detokenizer detokenizer(tokenizer, true);
  std::string joined;
  for (const int32_t id : ids) joined += detokenizer.push(id);
  joined += detokenizer.finish();
  STROBE_CHECK(joined == tokenizer.decode(ids, true), "pieces and the whole differ");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<Tokenizer> sound = sound_tokenizer();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view model = take_part(rest);
  const std::string_view config = take_part(rest);
  const auto made = strobe::make_tiktoken_tokenizer({.model = model, .config = config});
  if (!made.ok()) STROBE_CHECK(strobe::is_valid_utf8(made.message()), "an error message that is not UTF-8");
  const Tokenizer& tokenizer = made.ok() ? **made : *sound;
  check_round_trip(tokenizer, rest, SpecialTokens::kRecognise);
  check_round_trip(tokenizer, rest, SpecialTokens::kAsText);

  // Any ids at all, the input's bytes taken as numbers.
  std::vector<int32_t> ids;
  for (size_t i = 0; i + 4 <= rest.size() && ids.size() < 1000; i += 4) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) bits = bits << 8 | static_cast<unsigned char>(rest[i + k]);
    ids.push_back(static_cast<int32_t>(i % 8 == 0 ? bits % 1024 : bits));
  }
  STROBE_CHECK(strobe::is_valid_utf8(tokenizer.decode(ids, false)), "decoded text is not UTF-8");
  return 0;
}
