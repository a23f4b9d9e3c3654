// One streamed POST /generate, seen by a client with a clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::measure {

// One request of the call. Times are seconds since the call was sent.
struct RequestRecord {
  double first_s = 0;  // when its first token came
  double last_s = 0;   // when its last event came
  // Gaps between tokens after the first event. An event with n new tokens counts as n equal gaps.
  std::vector<double> gaps_s;
  int64_t first_event_tokens = 0;
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t verify_steps = 0;
  int64_t accepted_tokens = 0;
  std::vector<int64_t> accept_histogram;
  std::vector<int32_t> output_ids;
  std::string finish;  // "length", "stop", "abort"; empty while it runs
};

// Takes the events of one call in.
class GenerateStream {
 public:
  explicit GenerateStream(size_t requests) : records_(requests) {}
  // The data of one event and the time it came.
  void event(std::string_view data, double now_s);

  [[nodiscard]] const std::vector<RequestRecord>& records() const { return records_; }
  // What is wrong with what came, as far as the stream is whole: an error event, an event that cannot be read, a
  // request without an end; empty when nothing is.
  [[nodiscard]] std::string problem() const;

 private:
  std::vector<RequestRecord> records_;
  std::string problem_;
  bool done_ = false;
};

}  // namespace strobe::measure
