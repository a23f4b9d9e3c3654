// Job: one HTTP request's texts, from submission to the last chunk. The dialects only differ in how they read the
// request and in their Answer.
//
// Life: launch() on a handler thread submits one generate request a choice. Their chunks arrive on the scheduler's
// thread and are passed to the loop, where everything else happens: the choices' state, the Answer, the end. A client
// that goes away, /abort_request, and a choice that the engine gives up on abort what is still running. The job is in
// LiveJobs until the generator has ended every choice.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/generator.h"
#include "serve/api_error.h"
#include "serve/http.h"
#include "serve/metrics.h"

namespace strobe::serve {

// One text of a job.
struct Choice {
  int index = 0;         // in the answer
  int prompt_index = 0;  // which prompt it continues
  std::string request_id;
  std::string text;  // this and what follows only when the Answer keeps text
  std::vector<int32_t> token_ids;
  std::vector<schedule::TokenOrigin> origins;
  std::vector<schedule::TextPiece> pieces;
  std::vector<engine::TokenLogprobs> logprobs;  // one a token when the request asks
  schedule::Usage usage;                        // of the last chunk so far
  std::optional<schedule::Finish> finish;
};

// How a dialect says it. Everything is called on the loop; either fail() once, or begin(), chunk() for each chunk,
// finish().
class Answer {
 public:
  virtual ~Answer() = default;
  // Whether Choice::text, token_ids, origins, pieces and logprobs are wanted.
  [[nodiscard]] virtual bool keeps_text() const = 0;
  virtual void begin(Exchange& exchange) = 0;
  // `choice` has the chunk already.
  virtual void chunk(Exchange& exchange, const Choice& choice, const schedule::Chunk& chunk) = 0;
  virtual void finish(Exchange& exchange, std::span<const Choice> choices) = 0;
  // The engine gave up; may come after begin() and chunks.
  virtual void fail(Exchange& exchange, const ApiError& error) = 0;
};

struct JobPlan {
  // One a choice, in order of their index; their ids are set by launch().
  std::vector<schedule::GenerateRequest> requests;
  std::vector<int> prompt_of;  // of each request
  // Ids for /abort_request: one, or one a prompt.
  std::vector<std::string> ids;
};

class Job;

// The jobs whose texts are being made, by id. Safe to call from several threads at once.
class LiveJobs {
 public:
  // False when an id is taken; then nothing is added.
  bool add(const std::vector<std::string>& ids, const std::shared_ptr<Job>& job, int choices);
  void remove(const std::vector<std::string>& ids, int choices);
  // The number of jobs told to stop.
  int abort(const std::string& id);
  [[nodiscard]] std::vector<std::shared_ptr<Job>> all() const;
  // Choices of all jobs.
  [[nodiscard]] int choices() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::pair<std::weak_ptr<Job>, size_t>> jobs_;  // and which of the job's ids it is
  int choices_ = 0;
};

// Told of each text that has ended, on the loop: a JSON object in one line, with ids, counts and times but no text.
// May be empty.
using RequestLog = std::function<void(std::string_view line)>;

// What a job needs of the server; outlives every loop task.
struct JobServices {
  schedule::Generator& generator;
  Metrics& metrics;
  LiveJobs& live;
  const std::atomic<bool>& draining;
  int choices_max = 0;  // of all jobs together; more are refused with 503
  const RequestLog& request_log;
};

class Job : public std::enable_shared_from_this<Job> {
 public:
  static void launch(const JobServices& services, std::shared_ptr<Exchange> exchange, JobPlan plan,
                     std::unique_ptr<Answer> answer);

  // By /abort_request: the texts of the job's id number `which` end with what they have. Any thread.
  void abort_by_user(size_t which);
  // The server stops: the client gets an error. Any thread.
  void abort_by_server();
  [[nodiscard]] size_t ids() const { return plan_.ids.size(); }

  Job(const JobServices& services, std::shared_ptr<Exchange> exchange, JobPlan plan, std::unique_ptr<Answer> answer);

 private:
  void submit_all();
  // All below on the loop.
  void begin();
  void refuse(const ApiError& error, size_t submitted);
  void take(size_t choice, schedule::Chunk chunk);
  void handle(size_t choice, const schedule::Chunk& chunk);
  void observe(const Choice& choice, const schedule::Chunk& chunk);
  void log_end(const Choice& choice) const;
  void give_up(const ApiError& error);
  void abort_unfinished();
  // Those that the user has aborted.
  void abort_named();
  void end_if_complete();
  [[nodiscard]] size_t id_of(const Choice& choice) const {
    return user_aborted_.size() == 1 ? 0 : static_cast<size_t>(choice.prompt_index);
  }

  const JobServices services_;
  const std::shared_ptr<Exchange> exchange_;
  JobPlan plan_;
  const std::unique_ptr<Answer> answer_;
  std::vector<Choice> choices_;
  std::vector<bool> user_aborted_;  // of each id of the plan
  bool server_aborted_ = false;
  std::vector<std::pair<size_t, schedule::Chunk>> early_;  // chunks that came before begin()
  size_t unfinished_ = 0;
  bool begun_ = false;
  bool over_ = false;  // nothing more to say to the client
};

}  // namespace strobe::serve
