// A chat template and a tokenizer, each used by several threads at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "source_dir.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace strobe {
namespace {

constexpr int kThreads = 4;

template <class F>
void on_threads(const F& f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&f, t] { f(t); });
  for (auto& thread : threads) thread.join();
}

TEST(TextThreads, ATemplateRenders) {
  const auto made = ChatTemplate::parse(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + m.content | length %}{% endfor %}{{ "
      "ns.n }}",
      {}, "test.jinja");
  ASSERT_TRUE(made.ok()) << made.message();
  on_threads([&made](int t) {
    const std::string messages =
        fmt::format(R"([{{"role":"user","content":"{}"}}])", std::string(static_cast<size_t>(t), 'x'));
    for (int i = 0; i < 50; ++i) EXPECT_EQ(*made->render({.messages = messages}), std::to_string(t));
  });
}

TEST(TextThreads, ATokenizerEncodesAndDecodes) {
  const auto made = Tokenizer::load(source_dir() / "models/pocket-k2/target");
  ASSERT_TRUE(made.ok()) << made.message();
  const Tokenizer& tokenizer = **made;
  on_threads([&tokenizer](int t) {
    const std::string text = fmt::format("Erik is {} years old; Priya is \xe4\xb8\xad<|im_end|>", t + 20);
    const auto ids = tokenizer.encode(text, SpecialTokens::kRecognise);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kRecognise), ids);
      EXPECT_EQ(tokenizer.decode(ids, false), text);
    }
  });
}

}  // namespace
}  // namespace strobe
