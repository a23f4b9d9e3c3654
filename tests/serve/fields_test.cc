#include "serve/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "source_dir.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::array kDialects = {kCompletions,   kChat,     kGenerate,   kSamplingParams,
                                  kStreamOptions, kTokenize, kDetokenize, kAbortRequest};

Refusal read(const json& body, Dialect dialect, RequestFields& out) {
  return read_fields(body, dialect, "request body", "", out);
}

// The message, empty when it is accepted.
std::string message_of(const json& body, Dialect dialect = kCompletions) {
  RequestFields fields;
  const Refusal refusal = read(body, dialect, fields);
  return refusal ? refusal->message : "";
}

TEST(FieldTable, EachRowIsWhole) {
  for (const Field& field : request_fields()) {
    SCOPED_TRACE(field.name);
    EXPECT_FALSE(field.name.empty());
    EXPECT_FALSE(field.meaning.empty());
    EXPECT_NE(field.dialects, 0U);
    EXPECT_FALSE(accepted_values(field).empty());
    EXPECT_EQ(field.use == FieldUse::kApplied, !std::holds_alternative<std::monostate>(field.slot));
    EXPECT_EQ(field.use == FieldUse::kRefused, !field.off.empty());
    if (field.use == FieldUse::kRefused) {
      EXPECT_TRUE(json::parse(field.off).is_array());
    }
  }
}

TEST(FieldTable, NoNameTwiceInADialect) {
  for (const Dialect dialect : kDialects) {
    std::set<std::string_view> seen;
    for (const Field& field : request_fields()) {
      if ((field.dialects & dialect) == 0) continue;
      EXPECT_TRUE(seen.insert(field.name).second) << field.name;
    }
    EXPECT_FALSE(seen.empty());
  }
}

// Whatever the table says, each row behaves by it in each of its dialects.
TEST(FieldTable, EachRowIsEnforced) {
  const json odd = {{"a value", "that no field takes"}};
  for (const Dialect dialect : kDialects) {
    for (const Field& field : request_fields()) {
      if ((field.dialects & dialect) == 0) continue;
      SCOPED_TRACE(field.name);
      const std::string name(field.name);
      EXPECT_EQ(message_of({{name, nullptr}}, dialect), "");
      const std::string message = message_of({{name, odd}}, dialect);
      if (field.use == FieldUse::kIgnored || std::holds_alternative<RequestFields::Raw RequestFields::*>(field.slot)) {
        EXPECT_EQ(message, "");
      } else {
        EXPECT_THAT(message, HasSubstr("request body: " + name + " is an object; accepted: " + accepted_values(field)));
      }
      if (field.use != FieldUse::kRefused) continue;
      for (const json& off : json::parse(field.off)) EXPECT_EQ(message_of({{name, off}}, dialect), "") << off;
    }
  }
}

TEST(ReadFields, StoresWhatIsGivenAndNothingElse) {
  RequestFields fields;
  const json body = json::parse(R"({"temperature": 1, "top_k": 5.0, "stream": true, "model": "m", "prompt": ["x"],
                                    "seed": -9223372036854775808, "user": {"any": "thing"}, "top_p": null})");
  ASSERT_FALSE(read(body, kCompletions, fields));
  EXPECT_EQ(fields.temperature, 1.0);
  EXPECT_EQ(fields.top_k, 5);
  EXPECT_EQ(fields.stream, true);
  EXPECT_EQ(fields.model, "m");
  EXPECT_EQ(fields.seed, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(fields.prompt, &body["prompt"]);
  EXPECT_FALSE(fields.top_p);
  EXPECT_FALSE(fields.n);
}

struct RangeCase {
  const char* field;
  json value;
  bool good;
};

TEST(ReadFields, LimitsAreWhatTheySay) {
  const std::vector<RangeCase> cases = {
      {"temperature", 0, true},
      {"temperature", -0.001, false},
      {"temperature", 100.5, false},
      {"top_p", 0, false},
      {"top_p", 1e-9, true},
      {"top_p", 1, true},
      {"top_p", 1.0001, false},
      {"min_p", 0, true},
      {"min_p", 1, false},
      {"min_p", 0.999, true},
      {"top_k", -1, true},
      {"top_k", -2, false},
      {"top_k", 0, true},
      {"top_k", 1.5, false},
      {"n", 0, false},
      {"n", 1, true},
      {"n", 128, true},
      {"n", 129, false},
      {"repetition_penalty", 0, false},
      {"repetition_penalty", 2, true},
      {"repetition_penalty", 2.1, false},
      {"presence_penalty", -2, true},
      {"presence_penalty", -2.1, false},
      {"frequency_penalty", 2.1, false},
      {"max_tokens", 0, false},
      {"max_tokens", 1, true},
      {"max_tokens", -1, false},
      {"min_tokens", 0, true},
      {"max_tokens", "5", false},
      {"max_tokens", true, false},
      {"temperature", "hot", false},
      {"stream", 1, false},
      {"stream", "true", false},
      {"seed", 18446744073709551615u, false},
      {"seed", 0.5, false},
      {"max_tokens", 1e300, false},
      {"model", 5, false},
  };
  for (const RangeCase& each : cases) {
    EXPECT_EQ(message_of({{each.field, each.value}}).empty(), each.good) << each.field << " " << each.value;
  }
}

TEST(ReadFields, RefusalNamesFieldValueAndWhatIsAccepted) {
  RequestFields fields;
  const Refusal refusal =
      read_fields({{"top_p", 1.5}}, kSamplingParams, "request body: sampling_params", "sampling_params", fields);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 400);
  EXPECT_EQ(refusal->param, "sampling_params.top_p");
  EXPECT_EQ(refusal->message, "request body: sampling_params: top_p is 1.5; accepted: a number above 0 to 1");
}

TEST(ReadFields, UnknownFieldIsNamedWithItsNearest) {
  EXPECT_THAT(message_of({{"temprature", 1}}), HasSubstr("\"temprature\" is not a field of /v1/completions; did you "
                                                         "mean 'temperature'?"));
  EXPECT_THAT(message_of({{"wholly_other", 1}}), testing::EndsWith("is not a field of /v1/completions"));
  EXPECT_THAT(message_of({{std::string(100000, 'x'), 1}}).size(), testing::Lt(300U));
  // Fields of other dialects are unknown here.
  EXPECT_THAT(message_of({{"input_ids", {1}}}), HasSubstr("is not a field of /v1/completions"));
  EXPECT_THAT(message_of({{"prompt", "x"}}, kChat), HasSubstr("is not a field of /v1/chat/completions"));
  EXPECT_EQ(message_of({{"unknown", nullptr}}), "");
}

TEST(ReadFields, RefusedFieldSaysWhatIsNotServed) {
  EXPECT_THAT(message_of({{"suffix", "x"}}),
              HasSubstr("suffix is \"x\"; accepted: null, \"\"; not served: filling in the middle"));
  EXPECT_NE(message_of({{"response_format", {{"type", "json_object"}}}}, kChat), "");
  EXPECT_EQ(message_of({{"response_format", {{"type", "text"}}}}, kChat), "");
}

TEST(ReadFields, OnlyObjectsHaveFields) {
  for (const json& body : {json(5), json("x"), json::array(), json(nullptr), json(true)}) {
    EXPECT_THAT(message_of(body), HasSubstr("accepted: a JSON object"));
  }
}

TEST(FieldTable, MarkdownHasEveryField) {
  const std::string page = request_fields_markdown();
  for (const Field& field : request_fields()) {
    EXPECT_THAT(page, HasSubstr("\n| `" + std::string(field.name) + "` | "));
  }
}

// The committed page is what the table says.
TEST(FieldTable, TheDocumentationIsUpToDate) {
  const std::string expected = request_fields_markdown();
  std::ifstream file(source_dir() / "docs/REQUEST_FIELDS.md");
  const std::string committed((std::istreambuf_iterator<char>(file)), {});
  if (committed == expected) return;
  const std::filesystem::path fresh = std::filesystem::absolute("REQUEST_FIELDS.md");
  std::ofstream(fresh) << expected;
  FAIL() << "docs/REQUEST_FIELDS.md is not what src/serve/fields.cc says: cp " << fresh << " "
         << source_dir() / "docs/REQUEST_FIELDS.md";
}

}  // namespace
}  // namespace strobe::serve
