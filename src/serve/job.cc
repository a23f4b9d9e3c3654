#include "serve/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "serve/json_writer.h"
#include "serve/sse.h"

namespace strobe::serve {
namespace {

// Most refusals are the request's fault; these are not, and the client may try again.
ApiError refusal_of(const std::string& message) {
  const bool later = message.starts_with("the queue is full") || message.starts_with("the server is shutting down");
  return {.status = later ? 503 : 400, .message = message, .code = later ? "overloaded" : ""};
}

// A text that ended without the user's wish.
ApiError failure_of(const std::string& message, bool draining) {
  const bool late = message.starts_with("the request's time limit");
  return {.status = late       ? 504
                    : draining ? 503
                               : 500,
          .message = fmt::format("the request was aborted: {}", message),
          .code = late ? "timeout" : "aborted"};
}

}  // namespace

bool LiveJobs::add(const std::vector<std::string>& ids, const std::shared_ptr<Job>& job, int choices) {
  const std::lock_guard lock(mutex_);
  for (const std::string& id : ids) {
    if (jobs_.contains(id) || std::count(ids.begin(), ids.end(), id) > 1) return false;
  }
  for (size_t i = 0; i < ids.size(); ++i) jobs_[ids[i]] = {job, i};
  choices_ += choices;
  return true;
}

void LiveJobs::remove(const std::vector<std::string>& ids, int choices) {
  const std::lock_guard lock(mutex_);
  for (const std::string& id : ids) jobs_.erase(id);
  choices_ -= choices;
}

int LiveJobs::abort(const std::string& id) {
  std::shared_ptr<Job> job;
  size_t which = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return 0;
    job = found->second.first.lock();
    which = found->second.second;
  }
  if (job == nullptr) return 0;
  job->abort_by_user(which);
  return 1;
}

std::vector<std::shared_ptr<Job>> LiveJobs::all() const {
  std::vector<std::shared_ptr<Job>> jobs;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : jobs_) {
    std::shared_ptr<Job> job = entry.first.lock();
    if (job != nullptr && entry.second == 0) jobs.push_back(std::move(job));
  }
  return jobs;
}

int LiveJobs::choices() const {
  const std::lock_guard lock(mutex_);
  return choices_;
}

Job::Job(const JobServices& services, std::shared_ptr<Exchange> exchange, JobPlan plan, std::unique_ptr<Answer> answer)
    : services_(services),
      exchange_(std::move(exchange)),
      plan_(std::move(plan)),
      answer_(std::move(answer)),
      choices_(plan_.requests.size()),
      user_aborted_(plan_.ids.size()),
      unfinished_(plan_.requests.size()) {
  STROBE_CHECK(!plan_.requests.empty() && plan_.requests.size() == plan_.prompt_of.size() && !plan_.ids.empty(),
               "{} requests, {} prompts, {} ids", plan_.requests.size(), plan_.prompt_of.size(), plan_.ids.size());
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<int>(i);
    choices_[i].prompt_index = plan_.prompt_of[i];
    choices_[i].request_id = choices_.size() == 1 ? plan_.ids[0] : fmt::format("{}#{}", plan_.ids[0], i);
    plan_.requests[i].id = choices_[i].request_id;
  }
}

void Job::launch(const JobServices& services, std::shared_ptr<Exchange> exchange, JobPlan plan,
                 std::unique_ptr<Answer> answer) {
  const auto choices = static_cast<int>(plan.requests.size());
  if (services.live.choices() + choices > services.choices_max) {
    return exchange->send(to_response({.status = 503,
                                       .message = fmt::format("{} texts are being made or wait; the limit is {}",
                                                              services.live.choices(), services.choices_max),
                                       .code = "queue_full"}));
  }
  auto job = std::make_shared<Job>(services, exchange, std::move(plan), std::move(answer));
  if (!services.live.add(job->plan_.ids, job, choices)) {
    return exchange->send(to_response(
        {.message = fmt::format("request body: rid {} is in use; accepted: an id that no running request has",
                                fmt::join(job->plan_.ids, ", ")),
         .param = "rid"}));
  }
  job->submit_all();
}

void Job::submit_all() {
  exchange_->on_gone([weak = weak_from_this()] {
    const std::shared_ptr<Job> job = weak.lock();
    if (job == nullptr) return;
    job->over_ = true;
    job->abort_unfinished();
  });
  for (size_t i = 0; i < plan_.requests.size(); ++i) {
    const auto submitted =
        services_.generator.submit(std::move(plan_.requests[i]), [job = shared_from_this(), i](schedule::Chunk chunk) {
          job->exchange_->run([job, i, chunk = std::move(chunk)]() mutable { job->take(i, std::move(chunk)); });
        });
    if (submitted) continue;
    return exchange_->run(
        [job = shared_from_this(), i, message = submitted.message()] { job->refuse(refusal_of(message), i); });
  }
  exchange_->run([job = shared_from_this()] { job->begin(); });
}

void Job::begin() {
  begun_ = true;
  // Aborts that came while the requests were being submitted have missed the later ones.
  if (over_ || server_aborted_) {
    abort_unfinished();
  } else {
    abort_named();
  }
  if (!over_) answer_->begin(*exchange_);
  for (auto& [choice, chunk] : std::exchange(early_, {})) handle(choice, chunk);
}

void Job::refuse(const ApiError& error, size_t submitted) {
  over_ = true;
  begun_ = true;
  unfinished_ -= choices_.size() - submitted;
  exchange_->send(to_response(error));
  abort_unfinished();
  for (auto& [choice, chunk] : std::exchange(early_, {})) handle(choice, chunk);
  if (submitted == 0) end_if_complete();
}

void Job::take(size_t choice, schedule::Chunk chunk) {
  if (begun_) return handle(choice, chunk);
  early_.emplace_back(choice, std::move(chunk));
}

void Job::handle(size_t index, const schedule::Chunk& chunk) {
  Choice& choice = choices_[index];
  STROBE_CHECK(!choice.finish, "request {} got a chunk after its last", choice.request_id);
  observe(choice, chunk);
  choice.usage = chunk.usage;
  choice.finish = chunk.finish;
  if (chunk.finish) --unfinished_;
  if (chunk.finish && services_.request_log) log_end(choice);
  if (!over_) {
    const bool aborted = chunk.finish && chunk.finish->reason == schedule::FinishReason::kAbort;
    if (aborted && !user_aborted_[id_of(choice)]) {
      give_up(failure_of(chunk.finish->message, services_.draining));
    } else {
      if (answer_->keeps_text()) {
        choice.text += chunk.text;
        choice.token_ids.insert(choice.token_ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
        choice.origins.insert(choice.origins.end(), chunk.origins.begin(), chunk.origins.end());
        choice.pieces.insert(choice.pieces.end(), chunk.pieces.begin(), chunk.pieces.end());
        choice.logprobs.insert(choice.logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
      }
      answer_->chunk(*exchange_, choice, chunk);
    }
  }
  end_if_complete();
}

void Job::observe(const Choice& choice, const schedule::Chunk& chunk) {
  const schedule::Usage& before = choice.usage;
  const schedule::Usage& now = chunk.usage;
  if (before.completion_tokens == 0 && now.completion_tokens > 0) {
    services_.metrics.first_token(now.first_token_ms / 1000);
  } else {
    services_.metrics.more_tokens((now.total_ms - before.total_ms) / 1000,
                                  now.completion_tokens - before.completion_tokens);
  }
  if (chunk.finish) services_.metrics.finished(now, chunk.finish->reason == schedule::FinishReason::kAbort);
}

void Job::log_end(const Choice& choice) const {
  const schedule::Usage& usage = choice.usage;
  JsonWriter json;
  json.begin_object().field("rid", choice.request_id).field("path", exchange_->request().path);
  json.field("finish_reason", finish_word(choice.finish->reason));
  if (!choice.finish->message.empty()) json.field("message", choice.finish->message);
  json.field("prompt_tokens", usage.prompt_tokens).field("completion_tokens", usage.completion_tokens);
  json.field("cached_tokens", usage.cached_tokens).field("preemptions", usage.preemptions);
  json.field("spec_verify_ct", usage.verify_steps).field("held_back_steps", usage.held_back_steps);
  json.field("accepted_tokens", usage.accepted_tokens);
  json.field("accept_length", usage.accept_length());
  json.field("queue_ms", usage.queue_ms).field("first_token_ms", usage.first_token_ms);
  json.field("total_ms", usage.total_ms).end_object();
  services_.request_log(json.text());
}

void Job::give_up(const ApiError& error) {
  over_ = true;
  answer_->fail(*exchange_, error);
  abort_unfinished();
}

void Job::abort_unfinished() {
  for (const Choice& choice : choices_) {
    if (!choice.finish) services_.generator.abort(choice.request_id);
  }
}

void Job::abort_named() {
  for (const Choice& choice : choices_) {
    if (user_aborted_[id_of(choice)] && !choice.finish) services_.generator.abort(choice.request_id);
  }
}

void Job::abort_by_user(size_t which) {
  exchange_->run([job = shared_from_this(), which] {
    job->user_aborted_[which] = true;
    job->abort_named();
  });
}

void Job::abort_by_server() {
  exchange_->run([job = shared_from_this()] {
    job->server_aborted_ = true;
    job->abort_unfinished();
  });
}

void Job::end_if_complete() {
  if (unfinished_ > 0) return;
  services_.live.remove(plan_.ids, static_cast<int>(choices_.size()));
  if (!over_) answer_->finish(*exchange_, choices_);
  over_ = true;
}

}  // namespace strobe::serve
