#include "http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace strobe::serve {

HttpClient::HttpClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(fmt::format("connect: {}", std::strerror(errno)));
  }
}

HttpClient::~HttpClient() {
  close();
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)),
      events_(std::move(other.events_)),
      chunked_(other.chunked_),
      stream_ended_(other.stream_ended_) {}

void HttpClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void HttpClient::shut_write() {
  shutdown(socket_, SHUT_WR);
}

void HttpClient::set_receive_buffer(int bytes) {
  setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

void HttpClient::send_raw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server may refuse and close before it has read all
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void HttpClient::send(std::string_view method, std::string_view path, std::string_view body,
                      const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n", method, path);
  bool typed = false;
  for (const auto& [name, value] : headers) {
    text += fmt::format("{}: {}\r\n", name, value);
    typed = typed || name == "Content-Type";
  }
  if (!body.empty()) {
    if (!typed) text += "Content-Type: application/json\r\n";
    text += fmt::format("Content-Length: {}\r\n", body.size());
  }
  text += "\r\n";
  text += body;
  send_raw(text);
}

bool HttpClient::fill() {
  char bytes[16384];
  const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("nothing came for a minute");
  if (count <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(count));
  return true;
}

std::string HttpClient::read_line() {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) throw std::runtime_error(fmt::format("the connection ended inside a line: '{}'", buffer_));
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::string HttpClient::read_bytes(size_t count) {
  while (buffer_.size() < count) {
    if (!fill()) throw std::runtime_error("the connection ended inside a body");
  }
  std::string bytes = buffer_.substr(0, count);
  buffer_.erase(0, count);
  return bytes;
}

std::string HttpClient::read_chunk() {
  const size_t size = std::stoul(read_line(), nullptr, 16);
  std::string bytes = read_bytes(size);
  if (!read_line().empty()) throw std::runtime_error("no line end after a chunk");
  return bytes;
}

ClientResponse HttpClient::receive_head() {
  ClientResponse response;
  const std::string status = read_line();
  if (!status.starts_with("HTTP/1.1 ")) throw std::runtime_error("not a status line: " + status);
  response.status = std::stoi(status.substr(9, 3));
  for (std::string line = read_line(); !line.empty(); line = read_line()) {
    const size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = line.substr(colon + 2);
  }
  chunked_ = response.headers.contains("transfer-encoding");
  stream_ended_ = false;
  return response;
}

ClientResponse HttpClient::receive(bool head) {
  ClientResponse response = receive_head();
  if (head || response.status == 204 || response.status == 100) {
    response.complete = true;
  } else if (chunked_) {
    for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk()) response.body += chunk;
    response.complete = true;
  } else if (response.headers.contains("content-length")) {
    response.body = read_bytes(std::stoul(response.headers["content-length"]));
    response.complete = true;
  } else {
    while (fill()) continue;
    response.body = std::exchange(buffer_, {});
    response.complete = true;
  }
  return response;
}

std::optional<std::string> HttpClient::next_event() {
  size_t end;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    if (stream_ended_) return std::nullopt;
    const std::string chunk = read_chunk();
    stream_ended_ = chunk.empty();
    events_ += chunk;
  }
  std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  if (!event.starts_with("data: ")) throw std::runtime_error("not an event: " + event);
  return event.substr(6);
}

bool HttpClient::closed_by_server() {
  try {
    return buffer_.empty() && !fill();
  } catch (const std::runtime_error&) {
    return false;
  }
}

ClientResponse request(uint16_t port, std::string_view method, std::string_view path, std::string_view body,
                       const std::vector<std::pair<std::string, std::string>>& headers) {
  HttpClient client(port);
  client.send(method, path, body, headers);
  return client.receive(method == "HEAD");
}

ClientResponse post(uint16_t port, std::string_view path, const nlohmann::json& body) {
  return request(port, "POST", path, body.dump());
}

std::vector<std::string> post_stream(uint16_t port, std::string_view path, const nlohmann::json& body) {
  HttpClient client(port);
  client.send("POST", path, body.dump());
  const ClientResponse head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-type"), "text/event-stream");
  std::vector<std::string> events;
  while (auto event = client.next_event()) events.push_back(*std::move(event));
  return events;
}

}  // namespace strobe::serve
