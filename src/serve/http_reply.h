// Reply: one request and the bytes of its answer, on their way from a handler to the connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "serve/http.h"
#include "serve/http_loop.h"
#include "serve/http_server.h"

namespace strobe::serve {

// On the loop only, but for `request` (constant) and `abandoned`.
class Reply {
 public:
  Reply(Request made, bool keep_alive, bool http_1_1, size_t backlog_max, const HttpHooks& hooks)
      : request(std::move(made)),
        keep_alive_(keep_alive),
        chunked_(http_1_1),
        backlog_max_(backlog_max),
        hooks_(hooks) {}

  const Request request;
  std::atomic<bool> abandoned = false;  // the client is known to be gone: a queued handler need not start
  size_t in_flight = 0;                 // bytes of taken pieces that the network has not yet accepted
  std::function<void()> wake;           // tells the connection that there is news

  [[nodiscard]] bool done() const { return state_ == State::kDone; }
  [[nodiscard]] bool gone() const { return gone_; }
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] size_t backlog() const { return out_.size() + in_flight; }
  [[nodiscard]] std::string take() { return std::exchange(out_, {}); }

  void send(Response response);
  void begin_stream(const Response& head);
  void write(std::string_view piece);
  void end();
  // Nobody is left who could answer.
  void abandon();
  void on_gone(std::function<void()> callback);
  void set_gone();
  // The last byte is out: what the client does from now on is no concern of this request.
  void set_finished();

 private:
  enum class State { kFresh, kStreaming, kDone };

  void begin_head(const Response& response);
  void end_head() { out_ += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n"; }

  bool keep_alive_;
  const bool chunked_;
  const size_t backlog_max_;
  const HttpHooks& hooks_;
  State state_ = State::kFresh;
  std::string out_;
  bool gone_ = false;
  bool finished_ = false;
  std::function<void()> gone_callback_;
};

// The handler's side of a Reply.
class LoopExchange final : public Exchange {
 public:
  LoopExchange(std::shared_ptr<Loop> loop, std::shared_ptr<Reply> reply)
      : loop_(std::move(loop)), reply_(std::move(reply)) {}
  ~LoopExchange() override {
    loop_->run([reply = reply_] { reply->abandon(); });
  }
  LoopExchange(const LoopExchange&) = delete;
  LoopExchange& operator=(const LoopExchange&) = delete;

  [[nodiscard]] const Request& request() const override { return reply_->request; }
  void run(std::function<void()> task) override { loop_->run(std::move(task)); }
  void run_later(std::chrono::milliseconds delay, std::function<void()> task) override {
    loop_->run_later(delay, std::move(task));
  }
  void on_gone(std::function<void()> callback) override {
    loop_->run([reply = reply_, callback = std::move(callback)]() mutable { reply->on_gone(std::move(callback)); });
  }
  void send(Response response) override {
    loop_->run([reply = reply_, response = std::move(response)]() mutable { reply->send(std::move(response)); });
  }
  void begin_stream(Response head) override {
    loop_->run([reply = reply_, head = std::move(head)] { reply->begin_stream(head); });
  }
  void write(std::string piece) override {
    loop_->run([reply = reply_, piece = std::move(piece)] { reply->write(piece); });
  }
  void end() override {
    loop_->run([reply = reply_] { reply->end(); });
  }
  [[nodiscard]] size_t backlog_bytes() const override { return reply_->backlog(); }

 private:
  std::shared_ptr<Loop> loop_;
  std::shared_ptr<Reply> reply_;
};

}  // namespace strobe::serve
