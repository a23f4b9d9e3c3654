// Kimi's tokenizer: tiktoken.model and tokenizer_config.json.
//
// The reference is Moonshot's TikTokenTokenizer (tokenization_kimi.py) over the tiktoken package; ids are equal to its
// own. What it does beyond plain byte-pair encoding:
//   - 256 control tokens follow the base vocabulary. added_tokens_decoder names some; the others are
//     <|reserved_token_{id}|>. All 256 are recognised in text, marked "special" or not.
//   - Before anything else the text is cut after every 400,000 characters, and inside such a block wherever more than
//     25,000 white-space or non-white-space characters (as Python's str.isspace() has it) stand in a row. Nothing, a
//     control token included, is recognised across a cut.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace strobe {

inline constexpr int32_t kKimiControlTokens = 256;
inline constexpr size_t kKimiBlockChars = 400'000;
inline constexpr size_t kKimiSameKindChars = 25'000;

// The contents of the two files, and what errors call them.
struct TiktokenFiles {
  std::string_view model;
  std::string model_name = "tiktoken.model";
  std::string_view config;
  std::string config_name = "tokenizer_config.json";
};

// Refuses, with the file and line: lines that are not "BASE64 RANK", base64 that does not decode to the letter, empty
// tokens and tokens above 64 KiB, a token or a rank that was there before, ranks that are not 0 to n - 1, a vocabulary
// without each of the 256 single bytes or above 2^24 tokens; ids in added_tokens_decoder outside the 256; two control
// tokens of the same text; a tokenizer_class other than TikTokenTokenizer.
Result<std::unique_ptr<Tokenizer>> make_tiktoken_tokenizer(const TiktokenFiles& files);

// The tokens of a tiktoken.model by rank. Refuses as above.
Result<std::vector<std::string>> parse_tiktoken_model(std::string_view text, std::string_view name);

}  // namespace strobe
