// Bytes of a connection through the real HTTP server: whatever comes in, it must answer with HTTP or close, and serve
// the next client.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http_server.h"

namespace strobe::serve {
namespace {

[[noreturn]] void complain(std::string_view what, std::string_view text) {
  fmt::print(stderr, "http_wire_fuzz: {}: {}\n", what, text);
  std::abort();
}

// Sends the bytes, then reads until the server closes.
std::string talk(uint16_t port, std::string_view bytes) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) complain("connect", "refused");
  while (!bytes.empty()) {
    const ssize_t sent = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  shutdown(client, SHUT_WR);
  std::string answer;
  char buffer[4096];
  for (;;) {
    const ssize_t count = recv(client, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EAGAIN) complain("neither answered nor closed", answer);
    if (count <= 0) break;
    answer.append(buffer, static_cast<size_t>(count));
  }
  close(client);
  return answer;
}

void answer(const std::shared_ptr<Exchange>& exchange) {
  const Request& request = exchange->request();
  if (request.path.size() % 2 == 0) {
    return exchange->send({.content_type = "text/plain", .body = request.path + request.query + request.body});
  }
  exchange->begin_stream({.content_type = "text/plain"});
  for (const Header& header : request.headers) exchange->write(header.name + header.value);
  exchange->end();
}

}  // namespace
}  // namespace strobe::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strobe::serve;
  static HttpServer server({.port = 0, .header_bytes_max = 2048, .body_bytes_max = 8192}, {}, answer);
  static const uint16_t port = server.start();
  const std::string got = talk(port, {reinterpret_cast<const char*>(data), size});
  if (!got.empty() && !got.starts_with("HTTP/1.1 ")) complain("not HTTP", got);
  // The half-closed connection of a client that is done counts as gone, so a valid request may go unanswered here.
  return 0;
}
