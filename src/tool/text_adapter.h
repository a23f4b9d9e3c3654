// The text room as the doors of the program use it: tokenizer and chat template together.
#pragma once

#include <memory>
#include <string>

#include "serve/text_service.h"
#include "text/tokenizer.h"

namespace strobe::tool {

// `folder` holds the chat template; the tokenizer must outlive the result. A model without a template still serves
// completions; chats are refused then.
std::unique_ptr<serve::TextService> make_text_service(const Tokenizer& tokenizer, const std::string& folder);

}  // namespace strobe::tool
