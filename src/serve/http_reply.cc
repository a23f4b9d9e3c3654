#include "serve/http_reply.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "base/log.h"
#include "serve/api_error.h"

namespace strobe::serve {
namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(now));
}

}  // namespace

void Reply::send(Response response) {
  if (gone_ || state_ != State::kFresh) return;
  state_ = State::kDone;
  begin_head(response);
  const bool has_content = response.status != 204 && response.status != 304;
  if (has_content) {
    out_ += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", response.content_type, response.body.size());
  }
  end_head();
  if (request.method != "HEAD" && has_content) out_ += response.body;
  wake();
}

void Reply::begin_stream(const Response& head) {
  if (gone_ || state_ != State::kFresh) return;
  state_ = State::kStreaming;
  if (!chunked_) keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end of the body
  begin_head(head);
  out_ += fmt::format("Content-Type: {}\r\n", head.content_type);
  if (chunked_) out_ += "Transfer-Encoding: chunked\r\n";
  end_head();
  wake();
}

void Reply::write(std::string_view piece) {
  if (gone_ || state_ != State::kStreaming || piece.empty()) return;
  if (backlog() + piece.size() > backlog_max_) {
    log_debug("{} {}: the client lags {} bytes behind and is cut off", request.method, request.path, backlog());
    return set_gone();
  }
  if (chunked_) out_ += fmt::format("{:x}\r\n", piece.size());
  out_ += piece;
  if (chunked_) out_ += "\r\n";
  wake();
}

void Reply::end() {
  if (gone_ || state_ != State::kStreaming) return;
  state_ = State::kDone;
  if (chunked_) out_ += "0\r\n\r\n";
  wake();
}

void Reply::abandon() {
  if (state_ == State::kStreaming) set_gone();
  send(to_response({.status = 500, .message = "the request ended without an answer"}));
}

void Reply::on_gone(std::function<void()> callback) {
  if (gone_) return callback();
  if (!done()) gone_callback_ = std::move(callback);
}

void Reply::set_gone() {
  if (gone_ || finished_) return;
  gone_ = true;
  abandoned = true;
  wake();
  if (const auto callback = std::exchange(gone_callback_, nullptr)) callback();
}

void Reply::set_finished() {
  finished_ = true;
  gone_callback_ = nullptr;
}

void Reply::begin_head(const Response& response) {
  if (hooks_.on_answer) hooks_.on_answer(request, response.status);
  out_ += fmt::format("HTTP/1.1 {} {}\r\nServer: strobe\r\nDate: {}\r\n", response.status, status_text(response.status),
                      http_date());
  for (const Header& header : response.headers) out_ += fmt::format("{}: {}\r\n", header.name, header.value);
  if (!hooks_.extra_headers) return;
  for (const Header& header : hooks_.extra_headers(request)) {
    out_ += fmt::format("{}: {}\r\n", header.name, header.value);
  }
}

}  // namespace strobe::serve
