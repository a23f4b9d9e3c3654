#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "serve_fixture.h"

namespace strobe::serve {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class SglangTest : public ServeTest {
 protected:
  json ask(const json& body) {
    const ClientResponse response = post(port_, "/generate", body);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  std::vector<json> stream(const json& body) {
    std::vector<std::string> events = post_stream(port_, "/generate", body);
    EXPECT_FALSE(events.empty());
    if (events.empty()) return {};
    EXPECT_EQ(events.back(), "[DONE]");
    std::vector<json> parsed;
    for (size_t i = 0; i + 1 < events.size(); ++i) parsed.push_back(json::parse(events[i]));
    return parsed;
  }
};

TEST_F(SglangTest, TextInTextOut) {
  start();
  const json answer = ask({{"text", "hello"}, {"sampling_params", {{"max_new_tokens", 7}, {"temperature", 0}}}});
  EXPECT_EQ(answer["text"], " w0 w1 w2 w3 w4 w5 w6");
  EXPECT_EQ(answer["output_ids"], (json{1000, 1001, 1002, 1003, 1004, 1005, 1006}));
  EXPECT_FALSE(answer.contains("index"));
  const json& meta = answer["meta_info"];
  EXPECT_EQ(meta["finish_reason"], (json{{"type", "length"}, {"length", 7}}));
  EXPECT_EQ(meta["prompt_tokens"], 5);
  EXPECT_EQ(meta["completion_tokens"], 7);
  EXPECT_EQ(meta["cached_tokens"], 0);
  EXPECT_EQ(meta["spec_verify_ct"], 2);
  EXPECT_DOUBLE_EQ(meta["spec_accept_length"].get<double>(), 3.5);  // completion_tokens / spec_verify_ct
  EXPECT_DOUBLE_EQ(meta["spec_accept_rate"].get<double>(), 4.0 / 14);
  for (const auto* name : {"spec_num_correct_drafts", "spec_accepted_drafts"}) EXPECT_EQ(meta[name], 4) << name;
  for (const auto* name : {"spec_num_proposed_drafts", "spec_proposed_drafts"}) EXPECT_EQ(meta[name], 14) << name;
  for (const auto* name : {"spec_correct_drafts_histogram", "spec_accept_histogram"}) {
    EXPECT_EQ(meta[name], (json{0, 0, 2, 0, 0, 0, 0, 0})) << name;
  }
  EXPECT_GE(meta["e2e_latency"].get<double>(), 0);
  for (const auto* name : {"id", "weight_version", "num_retractions", "reasoning_tokens", "dp_rank"}) {
    EXPECT_TRUE(meta.contains(name)) << name;
  }
}

TEST_F(SglangTest, DefaultsAreNotTheModels) {
  ServerInfo info = test_info();
  info.sampling_defaults.temperature = 0.1;
  start({}, info);
  ask({{"text", "x"}});
  const schedule::GenerateRequest request = generator_.requests().at(0);
  EXPECT_FLOAT_EQ(request.sampling.temperature, 1.0F);
  EXPECT_EQ(request.stop.max_new_tokens, 128);
}

TEST_F(SglangTest, StepsHeldBackAreNoVerifyStepsAndTheirTokensCountForNone) {
  start();
  generator_.play(FakeGenerator::steps({{.text = "a"},
                                        {.tokens = 4, .text = "b", .verify = true},
                                        {.text = "c", .held_back = true},
                                        {.text = "d", .held_back = true},
                                        {.tokens = 2,
                                         .text = "e",
                                         .verify = true,
                                         .finish = schedule::Finish{.reason = schedule::FinishReason::kLength}}}));
  const json meta = ask({{"text", "x"}, {"speculative", "always"}})["meta_info"];
  EXPECT_EQ(generator_.requests().at(0).drafting, schedule::Drafting::kAlways);
  EXPECT_EQ(meta["completion_tokens"], 9);
  EXPECT_EQ(meta["spec_verify_ct"], 2);
  EXPECT_EQ(meta["held_back_steps"], 2);
  EXPECT_DOUBLE_EQ(meta["spec_accept_length"].get<double>(), 3.5) << "7 tokens of prefill and 2 steps with a draft";
}

TEST_F(SglangTest, PlainDecodingHasNoAcceptLength) {
  start();
  const json meta =
      ask({{"text", "x"}, {"speculative", "off"}, {"sampling_params", {{"max_new_tokens", 4}}}})["meta_info"];
  EXPECT_EQ(meta["spec_verify_ct"], 0);
  EXPECT_FALSE(meta.contains("spec_accept_length"));
  EXPECT_EQ(generator_.requests().at(0).drafting, schedule::Drafting::kOff);
}

TEST_F(SglangTest, StreamIsCumulativeAndBeginsWithOneToken) {
  start();
  const std::vector<json> events =
      stream({{"input_ids", {1, 2, 3}}, {"stream", true}, {"sampling_params", {{"max_new_tokens", 7}}}});
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["text"], " w0");
  EXPECT_EQ(events[0]["meta_info"]["completion_tokens"], 1);
  EXPECT_TRUE(events[0]["meta_info"]["finish_reason"].is_null());
  EXPECT_FALSE(events[0]["meta_info"].contains("e2e_latency"));
  EXPECT_EQ(events[1]["text"], " w0 w1 w2 w3");
  EXPECT_EQ(events[1]["output_ids"], (json{1000, 1001, 1002, 1003}));
  EXPECT_EQ(events[2]["text"], " w0 w1 w2 w3 w4 w5 w6");
  EXPECT_EQ(events[2]["meta_info"]["finish_reason"]["type"], "length");
}

TEST_F(SglangTest, FirstTokenWithoutTextHasItsEventToo) {
  start();
  generator_.play(FakeGenerator::steps({{.text = ""}, {.text = "汉", .finish = schedule::Finish{}}}));
  const std::vector<json> events = stream({{"text", "x"}, {"stream", true}});
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["text"], "");
  EXPECT_EQ(events[0]["meta_info"]["completion_tokens"], 1);
}

// What bench_one_batch_server sends and relies on.
TEST_F(SglangTest, BatchBenchmarkProtocol) {
  start();
  const std::vector<json> events = stream({{"input_ids", {{1, 2}, {3, 4}, {5, 6}}},
                                           {"sampling_params",
                                            {{"temperature", 0.0},
                                             {"max_new_tokens", 10},
                                             {"ignore_eos", true},
                                             {"json_schema", nullptr},
                                             {"stream_interval", 1}}},
                                           {"return_logprob", false},
                                           {"stream", true}});
  std::map<int, int> first_events;
  std::map<int, int> last_tokens;
  for (const json& event : events) {
    const json& reason = event["meta_info"]["finish_reason"];
    EXPECT_TRUE(reason.is_null() || reason["type"] == "length");
    const int index = event["index"];
    const int tokens = event["meta_info"]["completion_tokens"];
    if (tokens == 1) ++first_events[index];
    EXPECT_GT(tokens, last_tokens[index]);
    last_tokens[index] = tokens;
  }
  EXPECT_THAT(first_events, ElementsAre(std::pair(0, 1), std::pair(1, 1), std::pair(2, 1)));
  EXPECT_THAT(last_tokens, ElementsAre(std::pair(0, 10), std::pair(1, 10), std::pair(2, 10)));
}

TEST_F(SglangTest, StreamIntervalMakesFewerEvents) {
  start();
  const std::vector<json> events =
      stream({{"text", "x"}, {"stream", true}, {"sampling_params", {{"max_new_tokens", 16}, {"stream_interval", 6}}}});
  std::vector<int> tokens;
  for (const json& event : events) tokens.push_back(event["meta_info"]["completion_tokens"]);
  EXPECT_THAT(tokens, ElementsAre(1, 7, 13, 16));
}

TEST_F(SglangTest, ListsAnswerWithLists) {
  start();
  const json answer = ask({{"text", {"a", "bb"}},
                           {"rid", {"first", "second"}},
                           {"sampling_params", {{{"max_new_tokens", 1}}, {{"max_new_tokens", 4}, {"n", 2}}}}});
  ASSERT_EQ(answer.size(), 3U);
  EXPECT_EQ(answer[0]["text"], " w0");
  EXPECT_EQ(answer[1]["text"], " w0 w1 w2 w3");
  EXPECT_EQ(answer[0]["meta_info"]["id"], "first");
  EXPECT_EQ(answer[1]["meta_info"]["id"], "second");
  EXPECT_EQ(ask({{"text", {"a"}}}).size(), 1U);
  EXPECT_TRUE(ask({{"text", {"a"}}}).is_array());
  EXPECT_EQ(ask({{"text", "a"}, {"sampling_params", {{"n", 3}}}}).size(), 3U);
}

TEST_F(SglangTest, BadBodiesNameTheField) {
  start();
  const auto* path = "/generate";
  EXPECT_THAT(refused(path, "{}", "text"), HasSubstr("text or input_ids"));
  EXPECT_THAT(refused(path, R"({"text": "a", "input_ids": [1]})", "text"), HasSubstr("not both"));
  EXPECT_THAT(refused(path, R"({"text": [1]})", "text"), HasSubstr("text[0] is 1"));
  EXPECT_THAT(refused(path, R"({"input_ids": "a"})", "input_ids"), HasSubstr("input_ids is \"a\""));
  EXPECT_THAT(refused(path, R"({"input_ids": ["a"]})", "input_ids"), HasSubstr("input_ids[0] is \"a\""));
  EXPECT_THAT(refused(path, R"({"input_ids": []})", "input_ids"), HasSubstr("empty"));
  EXPECT_THAT(refused(path, R"({"text": "a", "sampling_params": []})", "sampling_params"), HasSubstr("an object"));
  EXPECT_THAT(refused(path, R"({"text": "a", "sampling_params": 5})", "sampling_params"), HasSubstr("it is 5"));
  EXPECT_THAT(refused(path, R"({"text": ["a","b"], "sampling_params": [{}]})", "sampling_params"),
              HasSubstr("an array of 2"));
  EXPECT_THAT(
      refused(path, R"({"text": ["a","b"], "sampling_params": [{}, {"top_p": 2}]})", "sampling_params[1].top_p"),
      HasSubstr("sampling_params[1]: top_p is 2"));
  EXPECT_THAT(refused(path, R"({"text": "a", "sampling_params": {"regex": "x"}})", "sampling_params.regex"),
              HasSubstr("not served"));
  EXPECT_THAT(
      refused(path, R"({"text": "a", "sampling_params": {"max_new_tokens": 512}})", "sampling_params.max_new_tokens"),
      HasSubstr("at most 511"));
  EXPECT_THAT(refused(path, R"({"text": "a", "sampling_params": {"stop": [5]}})", "sampling_params.stop"),
              HasSubstr("stop[0] is 5"));
  EXPECT_THAT(refused(path, R"({"text": ["a","b"], "rid": ["x"]})", "rid"), HasSubstr("an array of 2"));
  EXPECT_THAT(refused(path, R"({"text": ["a","b"], "rid": ["x","x"]})", "rid"), HasSubstr("in use"));
  EXPECT_THAT(refused(path, R"({"text": "a", "return_logprob": 1})", "return_logprob"), HasSubstr("true or false"));
  EXPECT_THAT(refused(path, json{{"text", std::string(512, 'a')}}.dump(), "text"), HasSubstr("512 tokens"));
  EXPECT_TRUE(generator_.requests().empty());
}

TEST_F(SglangTest, AbortByIdEndsTheTextWithWhatItHas) {
  start();
  generator_.play(FakeGenerator::endless(milliseconds(5)));
  HttpClient client(port_);
  client.send("POST", "/generate", R"({"text": "x", "rid": "mine", "stream": true})");
  EXPECT_EQ(client.receive_head().status, 200);
  ASSERT_TRUE(client.next_event());
  // The id is taken while the request runs.
  EXPECT_THAT(refused("/generate", R"({"text": "x", "rid": "mine"})", "rid"), HasSubstr("in use"));
  EXPECT_EQ(post(port_, "/abort_request", {{"rid", "other"}}).json()["aborted"], 0);
  EXPECT_EQ(post(port_, "/abort_request", {{"rid", "mine"}}).json()["aborted"], 1);
  json last;
  while (auto event = client.next_event()) {
    if (*event != "[DONE]") last = json::parse(*event);
  }
  EXPECT_EQ(last["meta_info"]["finish_reason"]["type"], "abort");
  EXPECT_THAT(last["text"].get<std::string>(), HasSubstr("word"));
  EXPECT_EQ(generator_.live(), 0);
}

TEST_F(SglangTest, AbortOfOnePromptOfAListLeavesTheOthers) {
  start();
  generator_.play([](const schedule::GenerateRequest& request, int k) -> std::optional<FakeStep> {
    if (request.prompt_ids[0] == 'a') return std::nullopt;
    return FakeGenerator::words()(request, k);
  });
  HttpClient client(port_);
  client.send("POST", "/generate",
              R"({"text": ["a", "b"], "rid": ["A", "B"], "sampling_params": {"max_new_tokens": 1}})");
  ASSERT_TRUE(generator_.wait_until_submitted(2));
  ASSERT_TRUE(generator_.wait_until_live(1));
  EXPECT_EQ(post(port_, "/abort_request", {{"rid", "A"}}).status, 200);
  const json answer = client.receive().json();
  EXPECT_EQ(answer[0]["meta_info"]["finish_reason"]["type"], "abort");
  EXPECT_EQ(answer[1]["meta_info"]["finish_reason"]["type"], "length");
}

TEST_F(SglangTest, AbortAll) {
  start();
  generator_.play(FakeGenerator::silence());
  std::vector<HttpClient> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(port_);
    clients.back().send("POST", "/generate", R"({"text": ["x", "y"]})");
  }
  ASSERT_TRUE(generator_.wait_until_live(10));
  // Submitted is not yet begun: ask until all have been told.
  EXPECT_EQ(post(port_, "/abort_request", {{"abort_all", true}}).json()["aborted"], 5);
  for (HttpClient& client : clients) {
    EXPECT_EQ(client.receive().json()[1]["meta_info"]["finish_reason"]["type"], "abort");
  }
  refused("/abort_request", "{}", "rid");
  refused("/abort_request", R"({"rid": 5})", "rid");
}

TEST_F(SglangTest, SlowReaderOfACumulativeStreamGetsTheWholeTextInFewerEvents) {
  start();
  // 3000 events of up to 3 MB: 4.5 GB if all were written.
  generator_.play([](const schedule::GenerateRequest&, int k) {
    FakeStep step{.text = std::string(1000, static_cast<char>('a' + k % 26))};
    if (k == 2999) step.finish = schedule::Finish{};
    return std::optional(step);
  });
  HttpClient client(port_);
  client.send("POST", "/generate", R"({"text": "x", "stream": true})");
  EXPECT_TRUE(generator_.wait_until_submitted(1));
  EXPECT_TRUE(generator_.wait_until_live(0));
  EXPECT_EQ(client.receive_head().status, 200);
  json last;
  int events = 0;
  while (auto event = client.next_event()) {
    ++events;
    if (*event != "[DONE]") last = json::parse(*event);
  }
  EXPECT_LT(events, 3000);
  EXPECT_EQ(last["text"].get<std::string>().size(), 3'000'000U);
  EXPECT_EQ(last["output_ids"].size(), 3000U);
}

TEST_F(SglangTest, TokenizeAndBack) {
  start();
  json answer = post(port_, "/tokenize", {{"model", "pocket"}, {"prompt", "hi"}}).json();
  EXPECT_EQ(answer, (json{{"tokens", {'h', 'i'}}, {"count", 2}, {"max_model_len", 512}}));
  answer = post(port_, "/v1/tokenize", {{"prompt", {"a", ""}}}).json();
  EXPECT_EQ(answer["tokens"], (json{{'a'}, json::array()}));
  EXPECT_EQ(answer["count"], (json{1, 0}));
  EXPECT_EQ(post(port_, "/detokenize", {{"tokens", {'h', 'i', 300}}}).json()["text"], "hi<300>");
  EXPECT_EQ(post(port_, "/detokenize", {{"tokens", {{'h'}, {'i'}}}}).json()["text"], (json{"h", "i"}));
  EXPECT_EQ(post(port_, "/detokenize", {{"tokens", json::array()}}).json()["text"], "");
  refused("/tokenize", "{}", "prompt");
  refused("/tokenize", R"({"prompt": [5]})", "prompt");
  refused("/tokenize", R"({"prompt": "x", "model": "y"})", "model", 404);
  refused("/detokenize", "{}", "tokens");
  refused("/detokenize", R"({"tokens": [2048]})", "tokens");
  refused("/detokenize", R"({"tokens": [[1], 2]})", "tokens");
}

TEST_F(SglangTest, ServerInfoHasWhatBenchmarksRead) {
  ServerInfo info = test_info();
  info.server_args = {{"tp_size", 1}, {"speculative_algorithm", "DFLASH"}};
  info.memory_usage = {{"weight", 1.5}, {"kvcache", 0.25}, {"graph", 0}};
  start({}, info);
  for (const auto* path : {"/server_info", "/get_server_info"}) {
    const json answer = request(port_, "GET", path).json();
    EXPECT_EQ(answer["tokenizer_path"], "/models/pocket");
    EXPECT_EQ(answer["speculative_algorithm"], "DFLASH");
    EXPECT_EQ(answer["version"], "1.2.3");
    EXPECT_EQ(answer["max_total_num_tokens"], 8192);
    EXPECT_EQ(answer["vocab_size"], info.vocab_tokens);
    EXPECT_EQ(answer["max_req_input_len"], 511);
    const json& state = answer["internal_states"].at(0);
    EXPECT_EQ(state["effective_max_running_requests_per_dp"], 64);
    EXPECT_EQ(state["memory_usage"],
              (json{{"weight", 1.5}, {"kvcache", 0.25}, {"graph", 0}, {"token_capacity", 8192}}));
    EXPECT_FALSE(state.contains("avg_spec_accept_length"));
  }
}

TEST_F(SglangTest, MeanAcceptLengthBeginsAnewAtAFlush) {
  start();
  const auto mean = [&] { return request(port_, "GET", "/server_info").json()["internal_states"][0]; };
  schedule::GeneratorStats stats = generator_.stats();
  stats.verify_steps_total = 100;
  stats.accepted_tokens_total = 400;
  generator_.set_stats(stats);
  EXPECT_DOUBLE_EQ(mean()["avg_spec_accept_length"].get<double>(), 5.0);
  EXPECT_EQ(request(port_, "POST", "/flush_cache").status, 200);
  EXPECT_FALSE(mean().contains("avg_spec_accept_length"));
  stats.verify_steps_total += 10;
  stats.accepted_tokens_total += 10;
  generator_.set_stats(stats);
  EXPECT_DOUBLE_EQ(mean()["avg_spec_accept_length"].get<double>(), 2.0);
  EXPECT_EQ(request(port_, "GET", "/flush_cache").status, 200);
  EXPECT_EQ(generator_.flushes(), 2);
}

TEST_F(SglangTest, BusyCacheIsNotFlushed) {
  start();
  generator_.play(FakeGenerator::silence());
  HttpClient client(port_);
  client.send("POST", "/generate", R"({"text": "x"})");
  ASSERT_TRUE(generator_.wait_until_live(1));
  const ClientResponse refused = request(port_, "POST", "/flush_cache");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("1 requests are not done")) << "the generator's own word";
}

TEST_F(SglangTest, ModelInfoAndLoads) {
  start();
  for (const auto* path : {"/model_info", "/get_model_info"}) {
    const json info = request(port_, "GET", path).json();
    EXPECT_EQ(info["model_path"], "/models/pocket");
    EXPECT_EQ(info["is_generation"], true);
    EXPECT_EQ(info["model_type"], "kimi_k2");
    EXPECT_EQ(info["architectures"], (json{"DeepseekV3ForCausalLM"}));
    EXPECT_TRUE(info["preferred_sampling_params"].is_null());
  }
  schedule::GeneratorStats stats = generator_.stats();
  stats.queued_requests = 3;
  stats.used_slots = 2048;
  stats.verify_steps_total = 5;
  stats.accepted_tokens_total = 12;
  stats.held_back_steps_total = 4;
  stats.accept_histogram = {1, 0, 2, 0, 2};
  stats.generated_tokens_total = 18;
  generator_.set_stats(stats);
  const json load = request(port_, "GET", "/v1/loads").json()["loads"][0];
  EXPECT_EQ(load["num_waiting_reqs"], 3);
  EXPECT_EQ(load["num_total_reqs"], 3);
  EXPECT_DOUBLE_EQ(load["token_usage"].get<double>(), 0.25);
  EXPECT_EQ(load["max_running_requests"], 64);
  EXPECT_EQ(load["generated_tokens_total"], 18);
  EXPECT_EQ(load["speculative"]["verify_steps_total"], 5);
  EXPECT_EQ(load["speculative"]["held_back_steps_total"], 4);
  EXPECT_EQ(load["speculative"]["accepted_tokens_total"], 12);
  EXPECT_EQ(load["speculative"]["draft_block_tokens"], 8);
  EXPECT_EQ(load["speculative"]["accept_histogram_total"], (json{1, 0, 2, 0, 2, 0, 0, 0}));
  EXPECT_EQ(request(port_, "GET", "/get_load").json()[0]["num_tokens"], 2048);
}

TEST_F(SglangTest, LogprobsOfTheOutput) {
  start();
  const json body = {{"text", "hello"},
                     {"return_logprob", true},
                     {"top_logprobs_num", 2},
                     {"sampling_params", {{"max_new_tokens", 4}, {"temperature", 0}}}};
  const json meta = ask(body)["meta_info"];
  EXPECT_EQ(generator_.requests()[0].sampling.logprobs, 2);
  EXPECT_EQ(meta["input_token_logprobs"], json::array());
  EXPECT_EQ(meta["output_token_logprobs"],
            json::parse("[[0.0, 1000, null], [-0.5, 1001, null], [-1.0, 1002, null], [-1.5, 1003, null]]"));
  EXPECT_EQ(meta["output_top_logprobs"].size(), 4U);
  EXPECT_EQ(meta["output_top_logprobs"][3], json::parse("[[-0.1, 1003, null], [-0.2, 1004, null]]"));
  // Streamed: cumulative, as the text is.
  json streamed = body;
  streamed["stream"] = true;
  for (const json& event : stream(streamed)) {
    const json& so_far = event["meta_info"];
    ASSERT_EQ(so_far["output_token_logprobs"].size(), so_far["completion_tokens"].get<size_t>());
    for (size_t i = 0; i < so_far["output_token_logprobs"].size(); ++i) {
      EXPECT_EQ(so_far["output_token_logprobs"][i], meta["output_token_logprobs"][i]);
    }
  }
  json with_text = body;
  with_text["return_text_in_logprobs"] = true;
  with_text["top_logprobs_num"] = 0;
  with_text["logprob_start_len"] = 5;
  const json named = ask(with_text)["meta_info"];
  EXPECT_EQ(named["output_token_logprobs"][1], json::parse(R"([-0.5, 1001, "<1001>"])"));
  EXPECT_FALSE(named.contains("output_top_logprobs"));
  EXPECT_FALSE(ask({{"text", "x"}})["meta_info"].contains("output_token_logprobs"));
}

// Each event says everything again: so many events as tokens would be a square of bytes.
TEST_F(SglangTest, LongStreamsWithLogprobsComeInFewerEvents) {
  start();
  const std::vector<json> events = stream(
      {{"text", "x"}, {"stream", true}, {"return_logprob", true}, {"sampling_params", {{"max_new_tokens", 500}}}});
  int before = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const int tokens = events[i]["meta_info"]["completion_tokens"];
    if (i + 1 < events.size()) {
      EXPECT_GE(tokens - before, std::max(1, before / 64));  // steps are of three tokens
    }
    before = tokens;
  }
  EXPECT_EQ(events.front()["meta_info"]["completion_tokens"], 1);
  EXPECT_EQ(before, 500);
  EXPECT_EQ(events.back()["meta_info"]["output_token_logprobs"].size(), 500U);
}

TEST_F(SglangTest, LogprobsOfThePromptAreRefused) {
  start();
  EXPECT_THAT(
      refused("/generate", R"({"text": "abc", "return_logprob": true, "logprob_start_len": 0})", "logprob_start_len"),
      HasSubstr("logprob_start_len is 0; accepted: -1, or the prompt's 3 tokens"));
  EXPECT_THAT(refused("/generate", R"({"text": "abc", "top_logprobs_num": 2})", "top_logprobs_num"),
              HasSubstr("return_logprob"));
  EXPECT_THAT(refused("/generate", R"({"text": "a", "return_logprob": true, "top_logprobs_num": 21, "stream": true})",
                      "top_logprobs_num"),
              HasSubstr("0 to 20 with \"stream\": true"));
  EXPECT_THAT(
      refused("/generate", R"({"text": "abc", "return_logprob": true, "token_ids_logprob": [1]})", "token_ids_logprob"),
      HasSubstr("not served"));
  // Without logprobs it means nothing; clients send it all the same.
  EXPECT_EQ(ask({{"text", "abc"}, {"return_logprob", false}, {"logprob_start_len", 0}})["meta_info"]["prompt_tokens"],
            3);
}

TEST_F(SglangTest, AbortWhileTextsAreBeingSubmittedEndsThemAll) {
  std::promise<void> one_is_in, go_on;
  generator_.on_submit = [&, submits = 0](const schedule::GenerateRequest&) mutable {
    if (++submits != 2) return;
    one_is_in.set_value();
    go_on.get_future().wait();
  };
  start();
  generator_.play(FakeGenerator::silence());
  HttpClient client(port_);
  client.send("POST", "/generate", R"({"text": "x", "rid": "mine", "sampling_params": {"n": 3}})");
  one_is_in.get_future().wait();
  EXPECT_EQ(post(port_, "/abort_request", {{"rid", "mine"}}).json()["aborted"], 1);
  go_on.set_value();
  const json answer = client.receive().json();
  ASSERT_EQ(answer.size(), 3U);
  for (const json& each : answer) EXPECT_EQ(each["meta_info"]["finish_reason"]["type"], "abort");
  EXPECT_EQ(generator_.live(), 0);
}

}  // namespace
}  // namespace strobe::serve
