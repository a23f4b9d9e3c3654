// HttpClient: one blocking connection to the server under test. Every wait ends after a minute with a test failure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::serve {

struct ClientResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without chunk framing
  bool complete = false;                       // the body's end was seen

  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body); }
};

class HttpClient {
 public:
  explicit HttpClient(uint16_t port);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send_raw(std::string_view bytes);
  // Sends a request with a Host header, and a JSON body when there is one.
  void send(std::string_view method, std::string_view path, std::string_view body = {},
            const std::vector<std::pair<std::string, std::string>>& headers = {});
  // One whole response. `head`: it has no body.
  ClientResponse receive(bool head = false);

  // Of a streamed response: the head, then event by event ("data: " and the line ends taken off); nullopt at its end.
  ClientResponse receive_head();
  std::optional<std::string> next_event();

  // Whether the server closes the connection (and sends nothing more) within a minute.
  bool closed_by_server();
  void close();
  // Our side only.
  void shut_write();
  // Asks the kernel for a small receive buffer; before much was received.
  void set_receive_buffer(int bytes);
  [[nodiscard]] int socket() const { return socket_; }

 private:
  bool fill();  // false: the end of the stream
  std::string read_line();
  std::string read_bytes(size_t count);
  std::string read_chunk();  // empty: the last

  int socket_ = -1;
  std::string buffer_;
  std::string events_;  // received, not yet taken
  bool chunked_ = false;
  bool stream_ended_ = false;
};

// A request on a connection of its own.
ClientResponse request(uint16_t port, std::string_view method, std::string_view path, std::string_view body = {},
                       const std::vector<std::pair<std::string, std::string>>& headers = {});
ClientResponse post(uint16_t port, std::string_view path, const nlohmann::json& body);
// All events of a streamed answer; the last should be "[DONE]".
std::vector<std::string> post_stream(uint16_t port, std::string_view path, const nlohmann::json& body);

}  // namespace strobe::serve
