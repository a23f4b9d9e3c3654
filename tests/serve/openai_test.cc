#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve_fixture.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto* kCompletionsPath = "/v1/completions";
constexpr auto* kChatPath = "/v1/chat/completions";

class OpenAiTest : public ServeTest {
 protected:
  std::vector<json> stream(std::string_view path, const json& body) {
    std::vector<std::string> events = post_stream(port_, path, body);
    EXPECT_FALSE(events.empty());
    if (events.empty()) return {};
    EXPECT_EQ(events.back(), "[DONE]");
    std::vector<json> parsed;
    for (size_t i = 0; i + 1 < events.size(); ++i) parsed.push_back(json::parse(events[i]));
    return parsed;
  }
  json ask(std::string_view path, const json& body) {
    const ClientResponse response = post(port_, path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  schedule::GenerateRequest submitted(size_t i = 0) { return generator_.requests().at(i); }
};

TEST_F(OpenAiTest, CompletionHasTextReasonAndUsage) {
  start();
  const json answer = ask(kCompletionsPath, {{"model", "pocket"}, {"prompt", "hello"}, {"max_tokens", 7}});
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "pocket");
  EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("cmpl-"));
  ASSERT_EQ(answer["choices"].size(), 1U);
  EXPECT_EQ(answer["choices"][0]["text"], " w0 w1 w2 w3 w4 w5 w6");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  const json usage = {{"prompt_tokens", 5},   {"completion_tokens", 7},
                      {"total_tokens", 12},   {"prompt_tokens_details", {{"cached_tokens", 0}}},
                      {"spec_verify_ct", 2},  {"held_back_steps", 0},
                      {"drafted_tokens", 14}, {"accepted_tokens", 4},
                      {"accept_length", 3.0}, {"accept_histogram", {0, 0, 2, 0, 0, 0, 0, 0}}};
  EXPECT_EQ(answer["usage"], usage);
  EXPECT_EQ(submitted().prompt_ids, (std::vector<int32_t>{'h', 'e', 'l', 'l', 'o'}));
}

TEST_F(OpenAiTest, CompletionDefaults) {
  ServerInfo info = test_info();
  info.sampling_defaults = {.temperature = 0.6, .top_p = 0.9, .top_k = 40, .min_p = 0.1, .repetition_penalty = 1.1};
  start({}, info);
  const json answer = ask(kCompletionsPath, {{"prompt", "hello"}});
  EXPECT_EQ(answer["usage"]["completion_tokens"], 16);
  const engine::SamplingParams& sampling = submitted().sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.6F);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(submitted().drafting, schedule::Drafting::kWhenItPays);
  EXPECT_TRUE(submitted().skip_special_tokens);
  EXPECT_FALSE(submitted().stop.ignore_eos);
}

TEST_F(OpenAiTest, EveryFieldReachesTheGenerator) {
  start();
  ask(kCompletionsPath, {{"prompt", {9, 8, 2047}},
                         {"max_tokens", 40},
                         {"min_tokens", 3},
                         {"temperature", 0},
                         {"top_p", 0.5},
                         {"top_k", 7},
                         {"min_p", 0.25},
                         {"seed", 42},
                         {"presence_penalty", 0.5},
                         {"frequency_penalty", -0.5},
                         {"repetition_penalty", 1.5},
                         {"logit_bias", {{"11", -100}, {"3", 2.5}}},
                         {"stop", {"\n", "END"}},
                         {"stop_token_ids", {5, 6}},
                         {"ignore_eos", true},
                         {"no_stop_trim", true},
                         {"skip_special_tokens", false},
                         {"speculative", "off"},
                         {"timeout_ms", 5000},
                         {"user", "me"},
                         {"metadata", {{"a", 1}}}});
  const schedule::GenerateRequest request = submitted();
  EXPECT_THAT(request.prompt_ids, ElementsAre(9, 8, 2047));
  EXPECT_EQ(request.stop.max_new_tokens, 40);
  EXPECT_EQ(request.stop.min_new_tokens, 3);
  EXPECT_THAT(request.stop.stop_strings, ElementsAre("\n", "END"));
  EXPECT_THAT(request.stop.stop_token_ids, ElementsAre(5, 6));
  EXPECT_TRUE(request.stop.ignore_eos);
  EXPECT_TRUE(request.stop.include_stop);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_EQ(request.drafting, schedule::Drafting::kOff);
  EXPECT_EQ(request.timeout_ms, 5000);
  EXPECT_TRUE(request.sampling.greedy());
  EXPECT_FLOAT_EQ(request.sampling.top_p, 0.5F);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_FLOAT_EQ(request.sampling.min_p, 0.25F);
  EXPECT_EQ(request.sampling.seed, 42U);
  EXPECT_FLOAT_EQ(request.sampling.presence_penalty, 0.5F);
  EXPECT_FLOAT_EQ(request.sampling.frequency_penalty, -0.5F);
  EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair(3, 2.5F), std::pair(11, -100.0F)));
}

TEST_F(OpenAiTest, SeveralPromptsAndTextsAreNumbered) {
  start();
  const json answer = ask(kCompletionsPath, {{"prompt", {"a", "bb"}}, {"n", 2}, {"max_tokens", 2}, {"seed", 10}});
  ASSERT_EQ(answer["choices"].size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(answer["choices"][i]["index"], i);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);  // each prompt once
  EXPECT_EQ(answer["usage"]["completion_tokens"], 8);
  std::vector<std::pair<size_t, uint64_t>> lengths_and_seeds;
  for (const auto& request : generator_.requests()) {
    lengths_and_seeds.emplace_back(request.prompt_ids.size(), request.sampling.seed);
  }
  EXPECT_THAT(lengths_and_seeds, ElementsAre(std::pair(1, 10), std::pair(1, 11), std::pair(2, 10), std::pair(2, 11)));
}

TEST_F(OpenAiTest, TextsWithoutASeedAllDiffer) {
  start();
  ask(kCompletionsPath, {{"prompt", "a"}, {"n", 8}, {"max_tokens", 1}});
  std::set<uint64_t> seeds;
  for (const auto& request : generator_.requests()) seeds.insert(request.sampling.seed);
  EXPECT_EQ(seeds.size(), 8U);
}

TEST_F(OpenAiTest, EchoRepeatsThePrompt) {
  start();
  const json body = {{"prompt", {"one", "two"}}, {"echo", true}, {"max_tokens", 1}};
  const json answer = ask(kCompletionsPath, body);
  EXPECT_EQ(answer["choices"][0]["text"], "one w0");
  EXPECT_EQ(answer["choices"][1]["text"], "two w0");
  const json ids = ask(kCompletionsPath, {{"prompt", {'h', 'i', 300}}, {"echo", true}, {"max_tokens", 1}});
  EXPECT_EQ(ids["choices"][0]["text"], "hi<300> w0");
  json streamed = body;
  streamed["stream"] = true;
  std::map<int, std::string> texts;
  for (const json& event : stream(kCompletionsPath, streamed)) {
    texts[event["choices"][0]["index"]] += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_THAT(texts, ElementsAre(std::pair(0, "one w0"), std::pair(1, "two w0")));
}

TEST_F(OpenAiTest, CompletionStreamSendsTheFirstTokenAlone) {
  start();
  const std::vector<json> events = stream(kCompletionsPath, {{"prompt", "x"}, {"max_tokens", 7}, {"stream", true}});
  std::vector<std::string> texts;
  for (const json& event : events) {
    EXPECT_EQ(event["object"], "text_completion");
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_FALSE(event.contains("usage"));
    texts.push_back(event["choices"][0]["text"]);
  }
  EXPECT_THAT(texts, ElementsAre(" w0", " w1 w2 w3", " w4 w5 w6"));
  EXPECT_TRUE(events[1]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
}

TEST_F(OpenAiTest, ChatAnswersWithAMessage) {
  start();
  const json answer = ask(kChatPath, json::parse(R"({"max_completion_tokens": 4, "messages": [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "hello"}]},
    {"role": "assistant", "content": null},
    {"role": "assistant", "tool_calls": []},
    {"role": "user", "content": "again"}]})"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(answer["choices"][0]["message"], (json{{"role", "assistant"}, {"content", " w0 w1 w2 w3"}}));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  const std::vector<int32_t> ids = submitted().prompt_ids;
  EXPECT_EQ(std::string(ids.begin(), ids.end()),
            R"([system]be brief[user][{"text":"hello","type":"text"}][assistant][assistant]null[user]again)");
}

TEST_F(OpenAiTest, ChatMayUseTheWholeContext) {
  start();
  generator_.play(FakeGenerator::steps({{.finish = schedule::Finish{}}}));
  ask(kChatPath, {{"messages", {{{"role", "user"}, {"content", "abc"}}}}});
  EXPECT_EQ(submitted().stop.max_new_tokens, 512 - static_cast<int>(std::string("[user]abc").size()));
}

TEST_F(OpenAiTest, ChatStreamHasRoleTextReasonAndUsage) {
  start();
  const std::vector<json> events = stream(kChatPath, {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                                                      {"max_tokens", 4},
                                                      {"stream", true},
                                                      {"stream_options", {{"include_usage", true}}}});
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[0]["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events[1]["choices"][0]["delta"], (json{{"content", " w0"}}));
  EXPECT_EQ(events[2]["choices"][0]["delta"], (json{{"content", " w1 w2 w3"}}));
  EXPECT_EQ(events[3]["choices"][0]["delta"], json::object());
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "length");
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(events[i]["usage"].is_null());
  EXPECT_EQ(events[4]["choices"], json::array());
  EXPECT_EQ(events[4]["usage"]["completion_tokens"], 4);
  EXPECT_EQ(events[4]["usage"]["accept_length"], 3.0);
}

TEST_F(OpenAiTest, EachChoiceOfAStreamEndsOnce) {
  start();
  std::map<int, int> ends;
  std::map<int, std::string> texts;
  const json body = {
      {"messages", {{{"role", "user"}, {"content", "x"}}}}, {"n", 3}, {"max_tokens", 5}, {"stream", true}};
  for (const json& event : stream(kChatPath, body)) {
    const json& choice = event["choices"][0];
    const int index = choice["index"];
    if (!choice["finish_reason"].is_null()) ++ends[index];
    if (choice["delta"].contains("content")) texts[index] += choice["delta"]["content"].get<std::string>();
  }
  EXPECT_THAT(ends, ElementsAre(std::pair(0, 1), std::pair(1, 1), std::pair(2, 1)));
  for (const auto& [index, text] : texts) EXPECT_EQ(text, " w0 w1 w2 w3 w4") << index;
}

TEST_F(OpenAiTest, StepsWithoutTextMakeNoEvent) {
  start();
  generator_.play(FakeGenerator::steps({{.text = ""}, {.text = "汉"}, {.text = ""}, {.finish = schedule::Finish{}}}));
  const std::vector<json> events = stream(kCompletionsPath, {{"prompt", "x"}, {"stream", true}});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["choices"][0]["text"], "汉");
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "stop");
}

TEST_F(OpenAiTest, TokenOriginsTellHowEachTokenCame) {
  start();
  generator_.play(FakeGenerator::steps({{.tokens = 1, .text = "a"},
                                        {.tokens = 3, .text = "bcd", .verify = true},
                                        {.tokens = 2, .text = ""},
                                        {.tokens = 1, .text = "\u00e9", .finish = schedule::Finish{}}}));
  json body = {{"prompt", "x"}, {"return_token_origins", true}, {"echo", true}};
  const json whole = ask(kCompletionsPath, body)["choices"][0];
  EXPECT_EQ(whole["text"], "xabcd\u00e9");
  const json origins = whole["token_origins"];
  EXPECT_EQ(origins["first"], 0);
  ASSERT_EQ(origins["tokens"].size(), 7U);
  EXPECT_EQ(origins["tokens"][0], (json{{"id", 1000}, {"step", 1}, {"block_position", 0}, {"drafted", 0}}));
  EXPECT_EQ(origins["tokens"][2], (json{{"id", 1002}, {"step", 2}, {"block_position", 1}, {"drafted", 7}}));
  EXPECT_EQ(origins["tokens"][5], (json{{"id", 1005}, {"step", 3}, {"block_position", 1}, {"drafted", 0}}));
  const auto piece = [](int token, const char* text) { return json{{"token", token}, {"text", text}}; };
  EXPECT_EQ(origins["pieces"], (json{piece(0, "a"), piece(1, "b"), piece(2, "c"), piece(3, "d"), piece(6, "\u00e9")}));

  // Streamed, the events' lists joined are the same; events without tokens (the echo) have none.
  body["stream"] = true;
  json tokens = json::array(), pieces = json::array();
  for (const json& event : stream(kCompletionsPath, body)) {
    const json& choice = event["choices"][0];
    if (!choice.contains("token_origins")) {
      EXPECT_EQ(choice["text"], "x");
      continue;
    }
    EXPECT_EQ(choice["token_origins"]["first"], tokens.size());
    std::string joined;
    for (const json& each : choice["token_origins"]["pieces"]) joined += each["text"].get<std::string>();
    EXPECT_EQ(choice["text"], joined);
    tokens.insert(tokens.end(), choice["token_origins"]["tokens"].begin(), choice["token_origins"]["tokens"].end());
    pieces.insert(pieces.end(), choice["token_origins"]["pieces"].begin(), choice["token_origins"]["pieces"].end());
  }
  EXPECT_EQ(tokens, origins["tokens"]);
  EXPECT_EQ(pieces, origins["pieces"]);

  const json chat = {
      {"messages", {{{"role", "user"}, {"content", "x"}}}}, {"return_token_origins", true}, {"stream", true}};
  const std::vector<json> events = stream(kChatPath, chat);
  EXPECT_FALSE(events[0]["choices"][0].contains("token_origins")) << "the role alone";
  EXPECT_EQ(events[1]["choices"][0]["token_origins"]["tokens"].size(), 1U);
  EXPECT_EQ(events[3]["choices"][0]["delta"]["content"], "") << "tokens that show nothing are told all the same";
  EXPECT_EQ(events[3]["choices"][0]["token_origins"]["tokens"].size(), 2U);
  EXPECT_EQ(events[3]["choices"][0]["token_origins"]["first"], 4);
  EXPECT_FALSE(ask(kCompletionsPath, {{"prompt", "x"}})["choices"][0].contains("token_origins"));
}

TEST_F(OpenAiTest, TokenIdsOnRequest) {
  start();
  const json body = {{"prompt", "x"}, {"max_tokens", 2}, {"return_token_ids", true}};
  EXPECT_EQ(ask(kCompletionsPath, body)["choices"][0]["token_ids"], (json{1000, 1001}));
  json streamed = body;
  streamed["stream"] = true;
  const std::vector<json> events = stream(kCompletionsPath, streamed);
  EXPECT_EQ(events[0]["choices"][0]["token_ids"], (json{1000}));
  EXPECT_EQ(events[1]["choices"][0]["token_ids"], (json{1001}));
}

TEST_F(OpenAiTest, ContinuousUsage) {
  start();
  const std::vector<json> events =
      stream(kCompletionsPath, {{"prompt", "x"},
                                {"max_tokens", 4},
                                {"stream", true},
                                {"stream_options", {{"continuous_usage_stats", true}, {"include_usage", false}}}});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 4);
}

TEST_F(OpenAiTest, FinishReasonsAndWhatWasMatched) {
  start();
  const auto answer_with = [&](const schedule::Finish& finish) {
    generator_.play(FakeGenerator::steps({{.text = "x", .finish = finish}}));
    return ask(kCompletionsPath, {{"prompt", "x"}})["choices"][0];
  };
  json choice = answer_with({.reason = schedule::FinishReason::kStop, .matched_string = "END"});
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["matched_stop"], "END");
  choice = answer_with({.reason = schedule::FinishReason::kStop, .matched_token = 3841});
  EXPECT_EQ(choice["matched_stop"], 3841);
  choice = answer_with({.reason = schedule::FinishReason::kLength});
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["matched_stop"].is_null());
}

TEST_F(OpenAiTest, TextThatIsNotUtf8IsRepaired) {
  start();
  generator_.play(FakeGenerator::steps({{.text = "a\xFF", .finish = schedule::Finish{}}}));
  EXPECT_EQ(ask(kCompletionsPath, {{"prompt", "x"}})["choices"][0]["text"], "a\xEF\xBF\xBD");
}

TEST_F(OpenAiTest, EngineFaultIsA500NotA400) {
  start();
  const schedule::Finish fault{.reason = schedule::FinishReason::kAbort, .message = "out of pages"};
  generator_.play(FakeGenerator::steps({{.text = "x"}, {.tokens = 0, .finish = fault}}));
  EXPECT_THAT(refused(kCompletionsPath, R"({"prompt": "x"})", "", 500), HasSubstr("out of pages"));
  const std::vector<std::string> events = post_stream(port_, kCompletionsPath, {{"prompt", "x"}, {"stream", true}});
  ASSERT_EQ(events.size(), 3U);
  EXPECT_THAT(json::parse(events[1])["error"]["message"].get<std::string>(), HasSubstr("out of pages"));
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(OpenAiTest, TimeLimitThatIsOverIsA504) {
  start();
  generator_.play(
      FakeGenerator::steps({{.text = "half"},
                            {.tokens = 0,
                             .finish = schedule::Finish{.reason = schedule::FinishReason::kAbort,
                                                        .message = "the request's time limit of 5 ms is over"}}}));
  const ClientResponse response = post(port_, kCompletionsPath, {{"prompt", "x"}, {"timeout_ms", 5}});
  EXPECT_EQ(response.status, 504);
  EXPECT_EQ(response.json()["error"]["code"], "timeout");
  EXPECT_THAT(response.json()["error"]["message"].get<std::string>(), HasSubstr("5 ms"));
  EXPECT_EQ(submitted().timeout_ms, 5);
}

TEST_F(OpenAiTest, OneFaultEndsAllChoices) {
  start();
  generator_.play([](const schedule::GenerateRequest& request, int k) -> std::optional<FakeStep> {
    if (!request.id.ends_with("#1")) return k == 0 ? std::optional(FakeStep{.text = "x"}) : std::nullopt;
    FakeStep step{.tokens = 0};
    step.finish = schedule::Finish{.reason = schedule::FinishReason::kAbort, .message = "fault"};
    return step;
  });
  refused(kCompletionsPath, R"({"prompt": "x", "n": 3})", "", 500);
  EXPECT_TRUE(generator_.wait_until_live(0));
}

TEST_F(OpenAiTest, RefusedSubmitIsA400AndLeavesNothingBehind) {
  start();
  generator_.play(FakeGenerator::silence());
  generator_.refuse_with("request x can never run");
  EXPECT_THAT(refused(kCompletionsPath, R"({"prompt": ["a","b"], "rid": "again"})", ""), HasSubstr("can never run"));
  generator_.refuse_with("");
  generator_.play(FakeGenerator::words());
  ask(kCompletionsPath, {{"prompt", "x"}, {"rid", "again"}});
  EXPECT_TRUE(generator_.wait_until_live(0));
}

TEST_F(OpenAiTest, ModelsAreListed) {
  start();
  const json list = request(port_, "GET", "/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1U);
  EXPECT_EQ(list["data"][0]["id"], "pocket");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["max_model_len"], 512);
  EXPECT_EQ(request(port_, "GET", "/v1/models/pocket").json(), list["data"][0]);
  EXPECT_EQ(request(port_, "GET", "/v1/models/other").status, 404);
}

TEST_F(OpenAiTest, ModelNamesWithSlashes) {
  ServerInfo info = test_info();
  info.model_name = "moonshotai/Kimi-K2";
  start({}, info);
  EXPECT_EQ(request(port_, "GET", "/v1/models/moonshotai/Kimi-K2").status, 200);
  EXPECT_EQ(request(port_, "GET", "/v1/models/moonshotai%2FKimi-K2").status, 200);
  ask(kCompletionsPath, {{"prompt", "x"}, {"model", "moonshotai/Kimi-K2"}});
}

TEST_F(OpenAiTest, BadBodiesNameTheField) {
  start();
  const auto* path = kCompletionsPath;
  EXPECT_THAT(refused(path, "{\"prompt\": ", ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(path, "[]", ""), HasSubstr("a JSON object"));
  EXPECT_THAT(refused(path, "{\"prompt\": \"\xFF\"}", ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "prompt": "b"})", ""), HasSubstr("twice"));
  EXPECT_THAT(refused(path, std::string(5000, '['), ""), HasSubstr("deeper"));
  EXPECT_THAT(refused(path, R"({"prompt": )" + std::string(100, '[') + std::string(100, ']') + "}", ""),
              HasSubstr("deeper"));
  EXPECT_THAT(refused(path, "{}", "prompt"), HasSubstr("prompt is missing"));
  EXPECT_THAT(refused(path, R"({"prompt": null})", "prompt"), HasSubstr("prompt is missing"));
  EXPECT_THAT(refused(path, R"({"prompt": ""})", "prompt"), HasSubstr("empty"));
  EXPECT_THAT(refused(path, R"({"prompt": []})", "prompt"), HasSubstr("empty"));
  EXPECT_THAT(refused(path, R"({"prompt": [[]]})", "prompt"), HasSubstr("empty"));
  EXPECT_THAT(refused(path, R"({"prompt": ["a", ""]})", "prompt"), HasSubstr("prompt[1]"));
  EXPECT_THAT(refused(path, R"({"prompt": ["a", 5]})", "prompt"), HasSubstr("prompt[1] is 5"));
  EXPECT_THAT(refused(path, R"({"prompt": [5, "a"]})", "prompt"), HasSubstr("prompt[1]"));
  EXPECT_THAT(refused(path, R"({"prompt": 5})", "prompt"), HasSubstr("prompt is 5"));
  EXPECT_THAT(refused(path, R"({"prompt": [2048]})", "prompt"), HasSubstr("a token id from 0 to 2047"));
  EXPECT_THAT(refused(path, R"({"prompt": [-1]})", "prompt"), HasSubstr("prompt[0] is -1"));
  EXPECT_THAT(refused(path, R"({"prompt": [18446744073709551615]})", "prompt"), HasSubstr("prompt[0]"));
  EXPECT_THAT(refused(path, R"({"prompt": [1.5]})", "prompt"), HasSubstr("prompt[0] is 1.5"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "temperature": "hot"})", "temperature"),
              HasSubstr("temperature is \"hot\"; accepted: a number from 0 to 100"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "stop": [""]})", "stop"), HasSubstr("stop[0]"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "stop": 5})", "stop"), HasSubstr("stop is 5"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "stop_token_ids": [9999]})", "stop_token_ids"), HasSubstr("9999"));
  for (const auto* bias : {R"({"9999": 1})", R"({"x": 1})", R"({"1": 101})", R"({"1": "a"})", R"({"-1": 1})", "[]"}) {
    refused(path, std::string(R"({"prompt": "a", "logit_bias": )") + bias + "}", "logit_bias");
  }
  EXPECT_THAT(refused(path, R"({"prompt": "a", "speculative": "maybe"})", "speculative"), HasSubstr("auto"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "rid": ""})", "rid"), HasSubstr("rid"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "stream_options": {}})", "stream_options"), HasSubstr("stream"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "stream": true, "stream_options": {"x": 1}})", "stream_options.x"),
              HasSubstr("stream_options"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "logprobs": 21})", "logprobs"), HasSubstr("from 0 to 20"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "logprobs": true})", "logprobs"), HasSubstr("from 0 to 20"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "logprobs": 1, "echo": true})", "logprobs"),
              HasSubstr("the prompt are not served"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "max_tokens": 4, "min_tokens": 5})", "min_tokens"),
              HasSubstr("at most 4"));
  EXPECT_THAT(refused(path, R"({"prompt": "a", "model": "gpt"})", "model", 404), HasSubstr("\"pocket\""));
  EXPECT_TRUE(generator_.requests().empty());
}

TEST_F(OpenAiTest, BadMessagesNameThePart) {
  start();
  const auto message = [&](const std::string& messages) {
    return refused(kChatPath, R"({"messages": )" + messages + "}", "messages");
  };
  EXPECT_THAT(message("[]"), HasSubstr("at least one"));
  EXPECT_THAT(message(R"("hi")"), HasSubstr("messages is \"hi\""));
  EXPECT_THAT(message("[5]"), HasSubstr("messages[0] is 5"));
  EXPECT_THAT(message(R"([{"content": "x"}])"), HasSubstr("messages[0].role"));
  EXPECT_THAT(message(R"([{"role": "boss", "content": "x"}])"), HasSubstr("messages[0].role is \"boss\""));
  EXPECT_THAT(message(R"([{"role": "user"}])"), HasSubstr("messages[0].content"));
  EXPECT_THAT(message(R"([{"role": "user", "content": 5}])"), HasSubstr("messages[0].content is 5"));
  EXPECT_THAT(message(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
              HasSubstr("messages[0].content[0].type is \"image_url\""));
  EXPECT_THAT(message(R"([{"role": "user", "content": [{"type": "text"}]}])"), HasSubstr("content[0].text"));
  EXPECT_THAT(refused(kChatPath, "{}", "messages"), HasSubstr("missing"));
  EXPECT_THAT(
      refused(kChatPath, R"({"messages": [{"role":"user","content":"x"}], "chat_template_kwargs": {"refuse": "so"}})",
              "messages"),
      HasSubstr("the template refuses"));
  EXPECT_THAT(refused(kChatPath, R"({"messages": [{"role":"user","content":"x"}], "top_logprobs": 2})", "top_logprobs"),
              HasSubstr("\"logprobs\": true"));
  EXPECT_THAT(refused(kChatPath,
                      R"({"messages": [{"role":"user","content":"x"}], "max_tokens": 5, "max_completion_tokens": 6})",
                      "max_completion_tokens"),
              HasSubstr("max_tokens (5)"));
}

TEST_F(OpenAiTest, ContextIsRespected) {
  start();  // 512 tokens
  const std::string fits = json{{"prompt", std::string(500, 'a')}, {"max_tokens", 12}}.dump();
  EXPECT_EQ(request(port_, "POST", kCompletionsPath, fits).status, 200);
  EXPECT_THAT(
      refused(kCompletionsPath, json{{"prompt", std::string(500, 'a')}, {"max_tokens", 13}}.dump(), "max_tokens"),
      HasSubstr("at most 12"));
  EXPECT_THAT(refused(kCompletionsPath, json{{"prompt", std::string(512, 'a')}}.dump(), "prompt"),
              HasSubstr("512 tokens; accepted: at most 511"));
  // The default is cut to what is left.
  const json cut = ask(kCompletionsPath, {{"prompt", std::string(505, 'a')}});
  EXPECT_EQ(cut["usage"]["completion_tokens"], 7);
}

TEST_F(OpenAiTest, TooManyTextsAreRefused) {
  ServerOptions options;
  options.limits.prompts_max = 10;
  start(std::move(options));
  EXPECT_THAT(refused(kCompletionsPath, R"({"prompt": ["a","b","c"], "n": 4})", "n"), HasSubstr("up to 10"));
  EXPECT_THAT(refused(kCompletionsPath, R"({"prompt": ["a","a","a","a","a","a","a","a","a","a","a"]})", "prompt"),
              HasSubstr("up to 10"));
}

TEST_F(OpenAiTest, FullHouseIsA503) {
  ServerOptions options;
  options.limits.choices_max = 2;
  start(std::move(options));
  generator_.play(FakeGenerator::silence());
  HttpClient first(port_);
  first.send("POST", kCompletionsPath, R"({"prompt": "a", "n": 2})");
  ASSERT_TRUE(generator_.wait_until_live(2));
  const ClientResponse second = post(port_, kCompletionsPath, {{"prompt", "b"}});
  EXPECT_EQ(second.status, 503);
  EXPECT_TRUE(second.headers.contains("retry-after"));
  first.close();
  EXPECT_TRUE(generator_.wait_until_live(0));
  generator_.play(FakeGenerator::words());
  int status = 503;
  for (int i = 0; i < 500 && status == 503; ++i) status = post(port_, kCompletionsPath, {{"prompt", "c"}}).status;
  EXPECT_EQ(status, 200);
}

TEST_F(OpenAiTest, ManyAtATime) {
  start();
  generator_.play(FakeGenerator::words(std::chrono::milliseconds(5)));
  std::vector<HttpClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(port_);
    clients.back().send("POST", kCompletionsPath, json{{"prompt", "x"}, {"max_tokens", 30 + i}}.dump());
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(clients[static_cast<size_t>(i)].receive().json()["usage"]["completion_tokens"], 30 + i);
  }
}

// What is asked for and cannot be had is refused; leaving it out would be another answer than the one that was asked
// for.
TEST_F(OpenAiTest, WhatIsNotServedIsRefusedByName) {
  start();
  const std::map<std::string, std::string> fields = {
      {"tools", R"([{"type": "function", "function": {"name": "f"}}])"},
      {"tool_choice", R"("required")"},
      {"functions", R"([{"name": "f"}])"},
      {"response_format", R"({"type": "json_object"})"},
      {"regex", R"("a+")"},
      {"json_schema", R"("{}")"},
      {"reasoning_effort", R"("high")"},
      {"modalities", R"(["audio"])"},
      {"continue_final_message", "true"},
      {"custom_logit_processor", R"("x")"},
      {"priority", "5"},
  };
  for (const auto& [field, value] : fields) {
    const std::string body = R"({"messages": [{"role": "user", "content": "x"}], ")" + field + "\": " + value + "}";
    EXPECT_THAT(refused(kChatPath, body, field), testing::AllOf(HasSubstr(field + " is "), HasSubstr("not served: ")));
  }
  EXPECT_TRUE(generator_.requests().empty());
  ask(kChatPath, json::parse(R"({"messages": [{"role": "user", "content": "x"}], "tools": [], "tool_choice": "none",
                                 "response_format": {"type": "text"}, "max_tokens": 1})"));
}

TEST_F(OpenAiTest, MessagesKeepTheOrderOfTheirNames) {
  start();
  // The fake template prints content that is a list.
  const std::string body = R"({"max_tokens": 1, "messages": [{"role": "user", "content":
      [{"type": "text", "zeta": {"b": 1, "a": [{"d": 0, "c": 0}]}, "text": "x", "alpha": 2}]}]})";
  EXPECT_EQ(request(port_, "POST", kChatPath, body).status, 200);
  const std::vector<int32_t> ids = submitted().prompt_ids;
  EXPECT_EQ(std::string(ids.begin(), ids.end()),
            R"([user][{"type":"text","zeta":{"b":1,"a":[{"d":0,"c":0}]},"text":"x","alpha":2}])");
}

TEST_F(OpenAiTest, AnObjectOfVeryManyNamesIsRefusedInChats) {
  start();
  std::string names = R"("role": "user")";
  for (int i = 0; i < 2000; ++i) names += fmt::format(", \"n{}\": 0", i);
  EXPECT_THAT(refused(kChatPath, R"({"messages": [{"content": "x", )" + names + "}]}", ""),
              HasSubstr("more than 1024 names"));
}

// ---- log probabilities ----

TEST_F(OpenAiTest, CompletionLogprobs) {
  start();
  // "é" in two tokens, then "!", then an end token that leaves no text.
  generator_.play(FakeGenerator::steps({{.tokens = 1, .ids = {0xC3}},
                                        {.tokens = 2, .text = "é!", .ids = {0xA9, '!'}},
                                        {.tokens = 1, .finish = schedule::Finish{}, .ids = {300}}}));
  const json body = {{"prompt", "x"}, {"logprobs", 2}};
  const json answer = ask(kCompletionsPath, body);
  EXPECT_EQ(submitted().sampling.logprobs, 2);
  const json& logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (json{"bytes:\\xc3", "bytes:\\xa9", "!", "<300>"}));
  EXPECT_EQ(logprobs["text_offset"], (json{0, 1, 1, 2}));
  EXPECT_EQ(logprobs["token_logprobs"], json::parse("[-2.5, -4.5, -1.5, 0.0]"));
  EXPECT_EQ(logprobs["top_logprobs"][2], json::parse(R"({"!": -0.1, "\"": -0.2})"));
  EXPECT_EQ(logprobs["top_logprobs"].size(), 4U);
  // The same, joined, when streamed: no token is lost with an event that has no text.
  json streamed = body, joined;
  streamed["stream"] = true;
  for (const json& event : stream(kCompletionsPath, streamed)) {
    const json& part = event["choices"][0]["logprobs"];
    if (part.is_null()) continue;
    for (const auto& [name, list] : part.items()) {
      for (const json& each : list) joined[name].push_back(each);
    }
  }
  EXPECT_EQ(joined, logprobs);
  EXPECT_TRUE(ask(kCompletionsPath, {{"prompt", "x"}})["choices"][0]["logprobs"].is_null());
  EXPECT_FALSE(submitted(2).sampling.logprobs);
}

TEST_F(OpenAiTest, ChatLogprobs) {
  start();
  generator_.play(
      FakeGenerator::steps({{.tokens = 1, .text = "a", .ids = {'a'}},
                            {.tokens = 2, .text = "é", .finish = schedule::Finish{}, .ids = {0xC3, 0xA9}}}));
  const json body = {
      {"messages", {{{"role", "user"}, {"content", "x"}}}}, {"logprobs", true}, {"top_logprobs", 1}, {"max_tokens", 9}};
  const json answer = ask(kChatPath, body);
  const json& content = answer["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(content, json::parse(R"([
      {"token": "a", "logprob": -3.5, "bytes": [97], "top_logprobs": [{"token": "a", "logprob": -0.1, "bytes": [97]}]},
      {"token": "\ufffd", "logprob": -2.5, "bytes": [195],
       "top_logprobs": [{"token": "\ufffd", "logprob": -0.1, "bytes": [195]}]},
      {"token": "\ufffd", "logprob": -4.5, "bytes": [169],
       "top_logprobs": [{"token": "\ufffd", "logprob": -0.1, "bytes": [169]}]}])"));
  json streamed = body, joined;
  streamed["stream"] = true;
  for (const json& event : stream(kChatPath, streamed)) {
    const json& part = event["choices"][0]["logprobs"];
    if (part.is_null()) continue;
    for (const json& each : part["content"]) joined.push_back(each);
  }
  EXPECT_EQ(joined, content);
  // Without top_logprobs: the tokens alone.
  json alone = body;
  alone.erase("top_logprobs");
  EXPECT_EQ(ask(kChatPath, alone)["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json::array());
  alone["logprobs"] = false;
  EXPECT_TRUE(ask(kChatPath, alone)["choices"][0]["logprobs"].is_null());
}

}  // namespace
}  // namespace strobe::serve
